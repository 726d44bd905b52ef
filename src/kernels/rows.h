// Rows of tables and of hidden states: looking them up, copying them, folding many into one.
//
// D columns; tensors are [n, D] in any floating dtype unless it is said.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace longformer::kernels {

/// Half-open range of rows that becomes one vector.
struct RowRange {
  Index begin = 0;
  Index end = 0;
};

/// The larger number; NaN when one of them is.
inline float larger(float a, float b) { return std::isnan(a) || b <= a ? a : b; }

/// A table, and which of its rows each token looks up.
struct RowLookup {
  const Tensor& table;
  std::span<const std::int32_t> rows;
  float scale = 1;
};
/// Writes the sums of what the lookups find for the tokens of a range, [tokens, D] floats.
void sum_table_rows(std::span<const RowLookup> lookups, RowRange tokens, float* to);

/// Targets of scatter_rows(): row i of the gradient goes to row rows[i] of the sums.
struct RowScatter {
  std::span<const std::int32_t> rows;
  /// A row of the table that gets nothing; −1 is none.
  Index padding = -1;
  float scale = 1;
};
/// Adds the rows of the gradient, times the scale, to sums [rows of the table, D] fp32. Threads
/// share the columns, so the order of every sum is the same for any number of them.
void scatter_rows(const Tensor& gradient, const RowScatter& scatter, Tensor& sums, int threads);

/// Copies row rows[i] of x to row i of `selected`, of the same dtype.
void select_rows(const Tensor& x, std::span<const Index> rows, Tensor& selected);
/// Adds row i of the gradient to row rows[i] of dx, of the same dtype.
void select_rows_backward(const Tensor& gradient, std::span<const Index> rows, Tensor& dx);

/// Writes the sum over the rows of each range to sums [ranges, D] fp32; an empty range gives zeros.
void sum_rows(const Tensor& x, std::span<const RowRange> ranges, Tensor& sums, int threads);
/// Adds row i of the gradient [ranges, D] to all rows of range i of dx, of the same dtype.
void sum_rows_backward(const Tensor& gradient, std::span<const RowRange> ranges, Tensor& dx);

/// Writes the largest value of each column over the rows of each range to highest [ranges, D] fp32;
/// an empty range gives −∞, a NaN in the column NaN.
void max_rows(const Tensor& x, std::span<const RowRange> ranges, Tensor& highest, int threads);
/// Adds each element of the gradient [ranges, D] fp32 to the row of dx, of the dtype of x, that has
/// the largest value of x: the first of several, and the first NaN, as max over a dimension does in
/// PyTorch.
void max_rows_backward(const Tensor& x, std::span<const RowRange> ranges, const Tensor& gradient,
                       Tensor& dx);

/// Writes zeros to the rows rows[i] − first of x [n, D] fp32.
void clear_rows(Tensor& x, std::span<const Index> rows, Index first);

/// Writes the transpose of x [n, m] fp32 to y [m, n] fp32.
void transpose(const Tensor& x, Tensor& y);

/// A table of other length: how many rows are reserved at the start of source and target, and how
/// many rows follow the reserved ones in the target.
struct RowTiling {
  Index source_reserved = 0;
  Index target_reserved = 0;
  Index count = 0;
};

/// [P, D] to [target_reserved + count, D] of the same dtype: row target_reserved + t is row
/// source_reserved + (t mod (P − source_reserved)). Reserved rows that both tables have are copied,
/// the others are zero. Needs P > source_reserved.
Tensor tile_rows(const Tensor& table, const RowTiling& tiling);

/// Row rows[i] of a table [R, D] fp32, times factors[i] where there are any, [rows, D].
Tensor gathered_rows(const Tensor& table, std::span<const Index> rows, const Tensor& factors);

/// Every number times the factor, rounded to the dtype of the table.
Tensor scaled(const Tensor& table, float factor);

}  // namespace longformer::kernels
