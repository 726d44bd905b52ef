// Attention of a single query, for rows that see everything: the tiles of fused attention would
// leave all but one of their lanes empty.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace longformer::kernels {

/// One query of one head against consecutive keys.
struct RowAttention {
  /// [d], [count, d] and [count, d], all fp32 or all bf16.
  const void* query = nullptr;
  const void* keys = nullptr;
  const void* values = nullptr;
  DType dtype = DType::f32;
  Index head_size = 0;
  Index count = 0;
  /// One byte per key, 0 = masked; null when none is.
  const std::uint8_t* visible = nullptr;
};

/// Writes softmax(q·kᵀ/√d)·v to out [d], fp32, and returns the logarithm of the softmax
/// denominator. With no visible key out is zero and the result −∞.
float attend_row(const RowAttention& row, float* out);

}  // namespace longformer::kernels
