// The steps between the matrix products of products.h: a softmax over rows of scores, and
// its backward pass.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/dtype.h"
#include "core/random.h"

namespace longformer::kernels {

/// Rows of queries, and columns of keys, are multiples of this.
inline constexpr Index kProductTile = 64;

/// The dropout masks of a tile: one DropoutRow for each query, against the columns of keys.
struct ProductDropout {
  const DropoutRow* rows = nullptr;
  const std::uint32_t* columns = nullptr;  ///< times DropoutRow::kColumnStep
  std::uint32_t threshold = 0;             ///< 0 where nothing is dropped
  float kept_factor = 1;
};

/// One tile of kProductTile queries against `columns` keys. Arrays of columns lie on whole lines.
struct SoftmaxRows {
  const float* scores = nullptr;  ///< [queries, columns]
  BFloat16* weights = nullptr;    ///< [queries, columns]: what the values are multiplied with
  Index columns = 0;
  const float* numbers = nullptr;  ///< [columns] 0, 1, 2, …
  /// [queries]: the query sees the columns first … last − 1.
  const Index* first = nullptr;
  const Index* last = nullptr;
  /// [columns], 0 or, where no query sees the key, kHiddenScore; null when all are 0.
  const float* hidden = nullptr;
  float scale = 0;  ///< from a product of query and key to the exponent of two
  // State of the softmax, [queries].
  float* shift = nullptr;   ///< minus the largest exponent so far
  float* sum = nullptr;     ///< denominator so far, times 2^shift
  float* factor = nullptr;  ///< out: what is to be multiplied with what was summed up before
  ProductDropout dropout;
};

/// Added to a score that is not to be seen.
inline constexpr float kHiddenScore = -1e38f;
/// Exponents below it belong to keys that are not seen.
inline constexpr float kHiddenExponent = -1e30f;

/// The backward pass, with the scores transposed: [columns, queries]. What products over the
/// queries need then has its rows where they are.
struct SoftmaxGradientRows {
  const float* scores = nullptr;   ///< [columns, queries]
  const float* changes = nullptr;  ///< [columns, queries]: gradient of the weights after dropout
  BFloat16* weights = nullptr;     ///< [columns, queries] after dropout
  BFloat16* slopes = nullptr;      ///< [columns, queries]: gradients of the scores
  Index columns = 0;
  // [queries], as floats.
  const float* first = nullptr;
  const float* last = nullptr;
  const float* exponent = nullptr;     ///< minus the logsumexp, as an exponent of two
  const float* mean = nullptr;         ///< Σ gradient · output
  const std::uint8_t* kept = nullptr;  ///< [columns], 0 = no query sees the key; null when all do
  float scale = 0;
  /// Multiplies the slopes, which then need no scale any more.
  float slope_scale = 0;
  /// [queries] start and twist of the dropout rows.
  const std::uint32_t* starts = nullptr;
  const std::uint32_t* twists = nullptr;
  const std::uint32_t* key_columns = nullptr;  ///< [columns] times DropoutRow::kColumnStep
  std::uint32_t threshold = 0;
  float kept_factor = 1;
};

/// A row of sums that becomes a row of the output.
struct OutputRow {
  const float* sums = nullptr;
  float factor = 1;
  Index count = 0;
  BFloat16* out = nullptr;
};

struct RowKernels {
  void (*softmax)(const SoftmaxRows&) = nullptr;
  /// Writes factor · sums and tells whether all of it is finite.
  bool (*write)(const OutputRow&) = nullptr;
  void (*softmax_gradient)(const SoftmaxGradientRows&) = nullptr;
};

/// The kernels for this CPU.
RowKernels row_kernels();

/// The kernels for every CPU, and those with bf16 instructions (from CpuIsa::avx512_bf16 on).
RowKernels portable_row_kernels();
RowKernels bf16_row_kernels();

}  // namespace longformer::kernels
