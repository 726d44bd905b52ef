// Some rows become one of the same dtype, as layers pool what they read
// (docs/spec/other-attentions.md#funnel).
//
// D columns; tensors are [n, D], fp32 or bf16.
#pragma once

#include <span>

#include "kernels/rows.h"

namespace longformer::kernels {

/// A column of several rows becomes its mean, or its largest number.
enum class RowPooling { mean, largest };

/// Writes what the ranges of rows become, none of which is empty: those of `which` among the rows
/// of pooled [ranges, D].
void pool_rows(const Tensor& x, std::span<const RowRange> ranges, RowPooling pooling,
               RowRange which, Tensor& pooled);
/// Adds the gradient [ranges, D] to that of x, of the same dtype: equal shares for a mean, else all
/// to the first of the largest numbers, or to the first NaN.
void pool_rows_backward(const Tensor& x, std::span<const RowRange> ranges, RowPooling pooling,
                        const Tensor& gradient, Tensor& dx);

}  // namespace longformer::kernels
