// LayerNorm and RMS norm, alone and behind the dense layer that ends in them in a transformer layer
// (docs/spec/encoder.md#a5).
#pragma once

#include "ops/linear.h"

namespace longformer::ops {

struct RowBlock;  // row_blocks.h

struct LayerNorm {
  /// The bias may be empty.
  Tensor weight, bias;
  float epsilon = 0;
  /// Whether the mean is taken off each row; without that it is the RMS norm.
  bool centres = true;
  /// Is added to the weight.
  float gain_offset = 0;
};
inline bool wants_gradient(const LayerNorm& norm) {
  return wants_gradient(norm.weight) || wants_gradient(norm.bias);
}

/// LayerNorm(x), row by row.
Tensor layer_norm(const Context& context, const Tensor& x, const LayerNorm& norm);

/// LayerNorm(dense(x)), in the context's dtype.
Tensor linear_norm(const Context& context, const Tensor& x, const Linear& dense,
                   const LayerNorm& norm);

/// LayerNorm(dropout(dense(x)) + residual): the end of the attention block.
Tensor linear_add_norm(const Context& context, const Tensor& x, const Linear& dense,
                       const Tensor& residual, const LayerNorm& norm, const Dropout& dropout = {});

/// For ops that end in LayerNorm. `sum` [n, D] fp32 becomes sum + residual (when there is one) and
/// is all that the backward pass needs.
Tensor add_norm(const Context& context, Tensor& sum, const Tensor* residual, const LayerNorm& norm,
                DType output);
/// One block of rows: x [rows, D] fp32 and the residual, null for none, become rows of out.
void normalise_block(const LayerNorm& norm, float* x, const void* residual, Tensor& out,
                     const RowBlock& block);
/// Turns the gradient of its result into that of the sum, in place, and adds to those of the norm.
void add_norm_backward(const Context& context, const Tensor& sum, const LayerNorm& norm,
                       Tensor& gradient);

}  // namespace longformer::ops
