// Interface of a model of any family: tokens in, hidden states out.
#pragma once

#include <memory>
#include <vector>

#include "models/batch.h"
#include "models/stack.h"

namespace longformer::models {

class Network {
 public:
  virtual ~Network() = default;
  /// Last hidden state of the tokens of all documents, [n, D].
  virtual Tensor forward(const ops::Context& context, const Batch& batch,
                         const PassOptions& options = {}) const = 0;
  /// A fresh state for documents that are read piece by piece; empty for models that keep nothing.
  virtual State start(DType dtype, Index streams = 1) const = 0;
};

}  // namespace longformer::models
