// Rows of distances as the terms of tiles hold them: copied to the type that the kernels multiply,
// and in pairs for those of bf16.
#pragma once

#include <cstddef>
#include <span>

#include "core/tensor.h"
#include "kernels/attention/fused_tile.h"

namespace longformer::kernels {

inline bool are_consecutive(std::span<const Index> numbers) {
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    if (numbers[i] != numbers[i - 1] + 1) return false;
  }
  return true;
}

/// Rows of one head of [H, m, d], as [row][dims] of the type that the kernels multiply.
template <typename Number>
void copy_head(const Tensor& from, Index head, Index dims, Number* to) {
  const Index rows = from.dimension(1), size = from.dimension(2);
  for (Index row = 0; row < rows; ++row) {
    const Index at = (head * rows + row) * size;
    for (Index c = 0; c < size; ++c) {
      to[row * dims + c] =
          Number(from.dtype() == DType::bf16 ? static_cast<float>(from.data<BFloat16>()[at + c])
                                             : from.data<float>()[at + c]);
    }
  }
}

/// Rows of bf16 in pairs; an odd last one has a row behind it.
inline void pair_rows(const float* from, Index rows, Index width, float* to) {
  const auto* numbers = reinterpret_cast<const BFloat16*>(from);
  for (Index row = 0; row < rows; row += 2) {
    interleave(numbers + row * width, numbers + (row + 1) * width, width, to + row / 2 * width);
  }
}

}  // namespace longformer::kernels
