// LayerNorm, alone and with the dense layers that end in it in a transformer layer
// (docs/spec/encoder.md#a5).
#pragma once

#include "ops/linear.h"

namespace longformer::ops {

struct LayerNorm {
  Tensor weight, bias;
  float epsilon = 0;
};
inline bool wants_gradient(const LayerNorm& norm) {
  return wants_gradient(norm.weight) || wants_gradient(norm.bias);
}

/// LayerNorm(x), row by row.
Tensor layer_norm(const Context& context, const Tensor& x, const LayerNorm& norm);

/// LayerNorm(dropout(dense(x)) + residual): the end of the attention block.
Tensor linear_add_norm(const Context& context, const Tensor& x, const Linear& dense,
                       const Tensor& residual, const LayerNorm& norm, const Dropout& dropout = {});

/// Two dense layers with the activation that `up` carries between them.
struct FeedForward {
  Linear up, down;
};
inline bool wants_gradient(const FeedForward& block) {
  return wants_gradient(block.up) || wants_gradient(block.down);
}

struct FeedForwardDropout {
  /// Dropout of the wide rows behind the activation, and of the result.
  Dropout inner = {}, outer = {};
};

/// LayerNorm(dropout(down(dropout(up(x)))) + x): the feed-forward block. When serving, the wide
/// intermediate exists only for one row block per thread.
Tensor feed_forward_add_norm(const Context& context, const Tensor& x, const FeedForward& block,
                             const LayerNorm& norm, const FeedForwardDropout& dropout = {});

/// For ops that end a feed-forward block: what is known of down(dropout(up(x))), where `before` is
/// up(x) before its activation.
struct FeedForwardPass {
  const Tensor& x;
  const FeedForward& block;
  const Tensor& before;
  Dropout dropout = {};
};
/// From the gradient of its result to those of the block and x.
void feed_forward_backward(const Context& context, const FeedForwardPass& pass,
                           const Tensor& gradient);

/// For ops that end in LayerNorm. `sum` [n, D] fp32 becomes sum + residual (when there is one) and
/// is all that the backward pass needs.
Tensor add_norm(const Context& context, Tensor& sum, const Tensor* residual, const LayerNorm& norm,
                DType output);
/// Turns the gradient of its result into that of the sum, in place, and adds to those of the norm.
void add_norm_backward(const Context& context, const Tensor& sum, const LayerNorm& norm,
                       Tensor& gradient);

}  // namespace longformer::ops
