// Copies of rows from one dtype to another, compiled once for each instruction set.
#pragma once

#include "core/dtype.h"

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

/// Σ a·b of so many numbers, in fp32.
float dot(const float* a, const float* b, Index count);
float dot(const BFloat16* a, const BFloat16* b, Index count);

}  // namespace longformer::kernels
