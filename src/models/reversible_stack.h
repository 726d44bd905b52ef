// The layers of a Reformer, which are undone on the way back (arXiv 2001.04451 §3;
// docs/spec/other-attentions.md#h3).
#pragma once

#include <memory>
#include <vector>

#include "models/attention/chunked.h"
#include "models/stack.h"
#include "ops/reversible.h"

namespace longformer::models {

/// y₁ = x₁ + W_o·attention(LN x₂), y₂ = x₂ + W₂·act(W₁·LN y₁ + b₁) + b₂.
class ReversibleStack {
 public:
  ReversibleStack(const ReformerLayers& layers, const LayerSource& source);

  /// x [n, D] to both streams [n, 2D]. A pass in fp32 keeps the streams at the end alone for its
  /// backward pass; in bf16, whose rounding does not let them be undone, it keeps every layer, or
  /// the inputs of its parts where the context recomputes. Hidden states are those of the second
  /// stream, as in transformers.
  Tensor forward(const ops::Context& context, const Tensor& x,
                 const std::shared_ptr<const SharedInput>& shared,
                 const PassOptions& options = {}) const;
  State start(DType dtype, Index streams) const;

 private:
  struct Layer;
  std::vector<std::shared_ptr<const Layer>> layers_;
};

}  // namespace longformer::models
