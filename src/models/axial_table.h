// Positions of an encoder as two coordinates (Reformer, docs/spec/other-attentions.md#h3).
#pragma once

#include "models/batch.h"
#include "models/layers.h"
#include "models/reformer_config.h"
#include "ops/context.h"

namespace longformer::models {

/// Two tables whose rows lie side by side.
class AxialTable {
 public:
  AxialTable(const ReformerConfig& reformer, const LayerSource& source);

  /// While the tables are trained, a text must have all positions, as in transformers. Throws Error
  /// for a text of another length.
  void check_trained(Index length) const;

  /// x [n, D] with the rows of the positions of its tokens added. A pass with a tape checks the
  /// lengths of its documents.
  Tensor added(const ops::Context& context, const Tensor& x, const Batch& batch) const;

 private:
  /// [s₁, a] and [s₂, b] fp32.
  Tensor rows_, columns_;
};

}  // namespace longformer::models
