// Rotary positions: pairs of numbers of queries and keys turn by angles that grow with the position
// (arXiv 2104.09864; docs/spec/modern-encoders.md#rotary).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/context.h"

namespace longformer::ops {

/// So many rows of a table of angles, from position 0 on.
struct RotationPart {
  std::vector<float> frequencies;
  Index rows = 0;
};
/// The rows of all parts behind each other, [rows, d] fp32 (kernels::fill_rotations).
Tensor rotation_table(std::span<const RotationPart> parts, double scale);

/// Row of the table for every token.
struct Rotation {
  Tensor table;
  std::vector<Index> places;
  /// See kernels::RotatedRows.
  bool pairs_neighbours = false;
};

/// x [H, n, d], row i of each head turned by row places[i] of the table.
Tensor rotate(const Context& context, const Tensor& x,
              const std::shared_ptr<const Rotation>& rotation);

}  // namespace longformer::ops
