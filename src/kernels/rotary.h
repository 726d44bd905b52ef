// Rotary positions (RoFormer, arXiv 2104.09864; docs/spec/modern-encoders.md#rotary).
#pragma once

#include <span>

#include "core/tensor.h"

namespace longformer::kernels {

/// Writes rows first … first + rows − 1 of the table [count, d] fp32, whose row p is that of
/// position p: cosines of p·frequencies[t] for t < d/2, then their sines, all times `scale`. The
/// angle is rounded to fp32, as in `transformers`.
void fill_rotations(std::span<const float> frequencies, float scale, Index first, Index rows,
                    Tensor& table);

/// Direction in which the pairs of a row turn.
enum class Turn { forward, back };

/// The rows first … first + rows − 1 of one head: y of x, [n, d] fp32 or bf16, by the rows
/// places[i] of the table. y may be x.
struct RotatedRows {
  const Tensor& table;
  std::span<const Index> places;
  Index first = 0;
  Index rows = 0;
  Turn turn = Turn::forward;
  /// Pairs are (2t, 2t + 1), not (t, t + d/2).
  bool pairs_neighbours = false;
};
void rotate_rows(const RotatedRows& rotated, const void* x, void* y, DType dtype);

}  // namespace longformer::kernels
