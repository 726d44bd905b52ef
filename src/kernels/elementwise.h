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

/// Rows of a gated layer (GLU, arXiv 2002.05202): activation(a)·b, where the two parts of a row are
/// `columns` numbers each, `other` elements apart, and rows are `stride` apart.
struct GatedRows {
  Activation activation = Activation::silu;
  /// The part a of the first row.
  const void* x = nullptr;
  /// From a number of a to that of b; negative where b lies before a.
  Index other = 0;
  Index rows = 0;
  Index columns = 0;
  Index stride = 0;
};
/// y [rows, columns]; it may begin where the parts do when they follow each other.
void gate(const GatedRows& gated, void* y, DType dtype);
/// From the gradient [rows, columns] of y to those of a and b, which lie in `parts` as a and b do
/// in x.
void gate_backward(const GatedRows& gated, const void* gradient, void* parts, DType dtype);

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
