// Copies of rows from one dtype to another, and their products,
// compiled once for each instruction set.
#pragma once

#include "core/tensor.h"

namespace longformer::kernels {

/// Rows of numbers, `stride` apart.
template <typename T>
struct RowsOf {
  T* first;
  Index rows, columns, stride;
};

/// Factors of rows on their way.
struct RowFactors {
  float all = 1;
  /// A further one for each row, where there are any.
  const float* each = nullptr;
};

/// Copies as many rows and columns as `to` has; bf16 is rounded to nearest even.
void copy_rows(const RowsOf<const BFloat16>& from, const RowsOf<float>& to);
void copy_rows(const RowsOf<const float>& from, const RowsOf<float>& to, const RowFactors& by = {});
void copy_rows(const RowsOf<const float>& from, const RowsOf<BFloat16>& to,
               const RowFactors& by = {});

/// Rows of a tensor: the number of their first element, and their distance.
struct RowPlace {
  Index first = 0, stride = 0;
};

/// Copies from and to a tensor of either dtype.
void read_rows(const Tensor& x, const RowPlace& place, const RowsOf<float>& to);
void write_rows(const RowsOf<const float>& from, Tensor& x, const RowPlace& place,
                const RowFactors& by = {});

/// products[row] = Σ a·b over `columns` numbers, in fp32; rows follow each other.
void multiply_rows(const float* a, const float* b, Index rows, Index columns, float* products);
void multiply_rows(const BFloat16* a, const BFloat16* b, Index rows, Index columns,
                   float* products);

}  // namespace longformer::kernels
