// The feed-forward block of a transformer layer, plain or gated, with its residual sum and, where
// it comes behind, its norm (docs/spec/encoder.md#a5, docs/spec/modern-encoders.md#layers).
#pragma once

#include <optional>

#include "ops/linear.h"
#include "ops/normalization.h"

namespace longformer::ops {

/// Half of the wide rows is activated and multiplied with the other half (GLU, arXiv 2002.05202).
struct Gate {
  Activation activation = Activation::silu;
  /// Whether it is the second half that is activated.
  bool activates_second = false;
};

/// Two dense layers. Between them is the activation that `up` carries, or the gate, for which `up`
/// makes both halves, by one weight or by two.
struct FeedForward {
  Linear up, down;
  std::optional<Gate> gate = std::nullopt;
};
inline bool wants_gradient(const FeedForward& block) {
  return wants_gradient(block.up) || wants_gradient(block.down);
}

struct FeedForwardDropout {
  /// Dropout of the wide rows behind the activation, and of the result.
  Dropout inner = {}, outer = {};
};

/// norm(dropout(down(dropout(up(x)))) + x). When serving, the wide rows exist only for one row
/// block per thread, here and below.
Tensor feed_forward_add_norm(const Context& context, const Tensor& x, const FeedForward& block,
                             const LayerNorm& norm, const FeedForwardDropout& dropout = {});

/// residual + dropout(down(dropout(up(x)))).
Tensor feed_forward_add(const Context& context, const Tensor& x, const FeedForward& block,
                        const Tensor& residual, const FeedForwardDropout& dropout = {});

}  // namespace longformer::ops
