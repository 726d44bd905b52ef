// Rows of a tensor some at a time: what makes one row of several.
#pragma once

#include "core/tensor.h"

namespace longformer::kernels {

/// Their mean, their largest numbers, or all of them one feature after the other: what a
/// convolution whose stride is the width of its kernel multiplies with its weight [out, in, tap].
enum class RowWindow { mean, largest, features };

/// From x [n·count, D] to out [n, D], or [n, D·count] for features; dtypes are alike.
void row_windows(const Tensor& x, Index count, RowWindow kind, Tensor& out);

/// For features: from the gradient of out to that of x, of which every number is written.
void row_windows_backward(const Tensor& gradient, Index count, Tensor& dx);

}  // namespace longformer::kernels
