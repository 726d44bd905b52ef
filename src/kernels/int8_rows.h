// Rows of numbers as whole numbers from -127 to 127 with a scale each, and back from the sums of
// their products (docs/int8.md#arithmetic).
#pragma once

#include <cstdint>
#include <optional>

#include "core/dtype.h"
#include "kernels/activation.h"

namespace longformer::kernels {

/// Rows [rows, columns] with scales [rows].
struct Int8Rows {
  std::int8_t* numbers = nullptr;
  float* scales = nullptr;
};

/// Each row by itself: scale = max |x| ÷ 127, numbers = x ÷ scale, rounded to nearest even. A row
/// of zeros, or of none above 2^-100, has scale 0; one with NaN or infinite numbers has scale NaN.
/// x is fp32 or bf16.
void quantize_rows(const void* x, DType dtype, Index rows, Index columns, const Int8Rows& to);

/// Sums [rows, columns] of products of such rows with columns that have scales too.
struct Int8Sums {
  const std::int32_t* sums = nullptr;
  Index rows = 0, columns = 0;
  const float* row_scales = nullptr;
  const float* column_scales = nullptr;
  /// [columns]; null adds nothing.
  const float* bias = nullptr;
  std::optional<Activation> activation = std::nullopt;
};

/// y = activation(sum · row scale · column scale + bias) in fp32 or bf16, the bias added as by fma.
void finish_rows(const Int8Sums& sums, void* y, DType dtype);

}  // namespace longformer::kernels
