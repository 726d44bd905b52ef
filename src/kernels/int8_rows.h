// Rows of numbers as 8-bit whole numbers with a scale each, and back from the sums of their
// products (docs/int8.md#arithmetic).
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.h"
#include "kernels/activation.h"

namespace longformer::kernels {

/// Rows of activations [rows, columns]: x ≈ scale · (number − zero). Scales and zeros [rows].
struct Int8Rows {
  std::uint8_t* numbers = nullptr;
  float* scales = nullptr;
  std::int32_t* zeros = nullptr;
};

/// Each row by itself: 255 steps from its least number to its largest, or from and to 0, rounded to
/// nearest even. A row of zeros has scale 0, also one without steps above 2^-100; a row with NaN or
/// infinite numbers has scale NaN. x is fp32 or bf16.
void quantize_rows(const void* x, DType dtype, Index rows, Index columns, const Int8Rows& to);

/// Rows of weights [rows, columns]: w ≈ scale · number, from -127 to 127.
struct Int8Weights {
  std::int8_t* numbers = nullptr;
  float* scales = nullptr;
};
/// scale = max |w| ÷ 127; zeros, NaN and infinity as above.
void quantize_weights(const float* weights, Index rows, Index columns, const Int8Weights& to);

/// A matrix of weights with the scales of its rows, [rows, 1] in fp32.
struct Int8Matrix {
  Tensor numbers, scales;
};
Int8Matrix quantized(const Tensor& weights);
/// numbers · scales in fp32; scales are [rows] or [rows, 1].
Tensor dequantized(const Int8Matrix& matrix);

/// Sums [rows, columns] of products of rows of activations and rows of weights.
struct Int8Sums {
  const std::int32_t* sums = nullptr;
  Index rows = 0, columns = 0;
  const float* row_scales = nullptr;
  const std::int32_t* zeros = nullptr;
  const float* column_scales = nullptr;
  /// Sum of the numbers of each row of weights.
  const std::int32_t* column_sums = nullptr;
  /// [columns]; null adds nothing.
  const float* bias = nullptr;
  std::optional<Activation> activation = std::nullopt;
};

/// y = activation((sum − zero · column sum) · row scale · column scale + bias) in fp32 or bf16, the
/// bias added as by fma.
void finish_rows(const Int8Sums& sums, void* y, DType dtype);

}  // namespace longformer::kernels
