// Attention along the edges of a binary tree over the tokens (BP-Transformer, arXiv 1911.04070;
// docs/spec/other-attentions.md#h11).
#pragma once

#include <memory>

#include "models/attention/query_key_value.h"
#include "models/binary_partition.h"

namespace longformer::models {

/// Reads rows of nodes (models/binary_partition.h), not of tokens: SharedInput::token_starts says
/// which tokens they come with. Without a state it takes its edges from SharedInput::edges.
class TreeAttention final : public Attention {
 public:
  TreeAttention(const LanguageModelConfig& config, Index layer, const LayerSource& source);

  Tensor forward(const ops::Context& context, const Tensor& x, const LayerInput& in) const override;
  std::unique_ptr<LayerState> start(DType dtype, Index streams) const override;

 private:
  Tensor label_keys(const ops::Context& context) const;

  TreeConfig tree_;
  Index heads_, head_size_;
  double dropout_;
  std::uint64_t place_;
  QueryKeyValue query_key_value_;
  /// r [L, d], which all heads share; empty where positions are others.
  Tensor edge_keys_;
};

}  // namespace longformer::models
