// Passes over numbers that go with the products of a dense layer and its backward pass.
//
// Arrays are fp32 or bf16, as `dtype` says; arithmetic is fp32.
#pragma once

#include "core/dtype.h"
#include "core/random.h"
#include "kernels/activation.h"

namespace longformer::kernels {

/// y = activation(x); may be in place.
void activate(Activation activation, const void* x, void* y, Index count, DType dtype);

/// gradient ·= activation'(x), where x is what the activation was given.
void activation_backward(Activation activation, const void* x, void* gradient, Index count,
                         DType dtype);

/// Adds bias [columns] fp32 to every row; rows are `stride` elements apart.
struct BiasRows {
  const float* bias = nullptr;
  Index rows = 0;
  Index columns = 0;
  Index stride = 0;
};
void add_bias(const BiasRows& bias, void* x, DType dtype);

/// The gradient of that bias: adds the sum over the rows of x to sums [columns].
struct ColumnSums {
  const void* x = nullptr;
  Index rows = 0;
  Index columns = 0;
  Index stride = 0;
};
void add_column_sums(const ColumnSums& columns, DType dtype, float* sums);

/// Rounds each to nearest even; NaN stays NaN.
void narrow_all(const float* from, BFloat16* to, Index count);

/// to += from
void add(const void* from, void* to, Index count, DType dtype);

/// x ·= factor
void scale(float factor, void* x, Index count, DType dtype);

/// Multiplies with the mask of the dropout; the first element has index `first`.
void drop(const Dropout& dropout, std::uint64_t first, void* x, Index count, DType dtype);

}  // namespace longformer::kernels
