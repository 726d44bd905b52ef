// Rows of a tensor some at a time: what makes one row of several.
#pragma once

#include <span>

#include "core/tensor.h"

namespace longformer::kernels {

/// Their mean, their largest numbers, or all of them one feature after the other: what a
/// convolution whose stride is the width of its kernel multiplies with its weight [out, in, tap].
enum class RowWindow { mean, largest, features };

/// From x [n·count, D] to out [n, D], or [n, D·count] for features; dtypes are alike.
void row_windows(const Tensor& x, Index count, RowWindow kind, Tensor& out);

/// For features: from the gradient of out to that of x, of which every number is written.
void row_windows_backward(const Tensor& gradient, Index count, Tensor& dx);

/// Rows of x that each row reads, in their order; −1 stands for zeros.
struct NeighbourRows {
  std::span<const Index> rows;
  /// So many for each row.
  Index taps = 1;
};

/// Factors of the weight [out, in, tap] of a convolution over rows x [n, D], as with
/// RowWindow::features: out [rows / taps, D·taps], of the same dtype.
void gather_neighbours(const Tensor& x, const NeighbourRows& neighbours, Tensor& out);
/// Adds the gradient of out, in fp32, to that of x, in fp32. Threads share the columns, so the
/// order of every sum is the same for any number of them.
void scatter_neighbours(const Tensor& gradient, const NeighbourRows& neighbours, Tensor& dx,
                        int threads);

}  // namespace longformer::kernels
