// Sums of rows with those of a table: positions that are added to tokens, or to every head's
// queries and keys.
//
// x is [n, w] or [H, n, w], and then the table [P, w] or [H, P, w] of the same dtype.
#pragma once

#include <span>

#include "core/tensor.h"

namespace longformer::kernels {

/// Row i of every head of `sum` is row i of x with row rows[i] of the table.
void add_table_rows(const Tensor& x, const Tensor& table, std::span<const Index> rows, Tensor& sum,
                    int threads);

/// Adds row i of every head of the gradient to row rows[i] of `sums`, fp32.
void add_table_rows_backward(const Tensor& gradient, std::span<const Index> rows, Tensor& sums,
                             int threads);

}  // namespace longformer::kernels
