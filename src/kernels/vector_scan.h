// The exact dense part of a search: one query against every vector of an index, which are kept as
// bytes because a scan takes as long as reading them does. Whoever needs the scores of the best
// ones to the last digit computes these again from the vectors in fp32.
//
// n vectors of d elements.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.h"

namespace longformer::kernels {

/// Bytes of a quantized vector are −127 … 127.
inline constexpr Index kByteLevels = 127;

/// Writes finite numbers as bytes: bytes·scale is nearest to the vector, scale is max |x| / 127.
/// Returns the scale. For a vector of zeros, or of numbers too small for a scale, it is 0 and so
/// are the bytes.
float quantize(std::span<const float> vector, std::span<std::int8_t> bytes);

/// Vectors as bytes, one after another.
struct ByteVectors {
  /// d, to be set before the first vector comes.
  Index width = 0;
  /// [n, d]
  std::vector<std::int8_t> bytes;
  /// [n]
  std::vector<float> scales;

  Index size() const { return static_cast<Index>(scales.size()); }
  /// [d] elements of vector i.
  std::span<const std::int8_t> row(Index i) const {
    return std::span(bytes).subspan(at(i * width), at(width));
  }
  /// Makes room for so many vectors in all, for those who know how many will come.
  void reserve(Index vectors);
  /// Makes room for further ones of which more may follow: with less slack than that of a vector.
  void make_room(Index further);
  /// Quantizes finite numbers [d].
  void append(std::span<const float> vector);
  /// [d] bytes that quantize() has made, or any others.
  void append(std::span<const std::int8_t> vector, float scale);
};

/// A query as integers: values·scale is nearest to it. They are as fine as a dot product with bytes
/// allows without leaving 32 bits, which at the usual widths makes the error of a score that of the
/// bytes alone.
struct IntegerQuery {
  std::vector<std::int16_t> values;
  float scale = 0;
};

/// The largest magnitude of a value: 32,767 up to 512 elements, still 255 at 65,536. Widths up to
/// kWidestQuery have one of at least 1.
Index query_levels(Index width);
inline constexpr Index kWidestQuery = Index{1} << 23;

/// The numbers must be finite.
IntegerQuery integer_query(std::span<const float> query);

/// scores[i] = the dot product of vector i and the query [d]; scores [n]. Sums of integers are
/// exact, so the number of threads and the instruction set change no bit. With scales s of the
/// vector and t of the query the error is at most s/2·Σ|query| + t/2·Σ|vector| + d·s·t/4, and the
/// rounding of a few operations in fp32.
void scan(const ByteVectors& vectors, std::span<const float> query, std::span<float> scores,
          int threads);

/// The indices of the `count` highest scores, or of all where there are fewer: the highest first,
/// and the lower index first of equal ones. A NaN, which only damaged scales give, counts as −∞.
std::vector<Index> best(std::span<const float> scores, Index count);

}  // namespace longformer::kernels
