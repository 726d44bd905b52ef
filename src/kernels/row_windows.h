// Rows of a tensor some at a time: what makes one row of several.
#pragma once

#include "core/tensor.h"

namespace longformer::kernels {

/// Their mean, their largest numbers, or all of them one feature after the other: what a
/// convolution whose stride is the width of its kernel multiplies with its weight [out, in, tap].
enum class RowWindow { mean, largest, features };

/// From x [n·count, D] to out [n, D], or [n, D·count] for features; dtypes are alike.
void row_windows(const Tensor& x, Index count, RowWindow kind, Tensor& out);

}  // namespace longformer::kernels
