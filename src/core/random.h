// Counter-based random numbers: the same (seed, index) gives the same number on every machine and
// thread.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/tensor.h"

namespace longformer {

/// 64 well-mixed bits of a counter (the finaliser of SplitMix64).
inline std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15ull + (index + 1) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// A uniform number in (0, 1).
inline float random_uniform(std::uint64_t seed, std::uint64_t index) {
  return (static_cast<float>(random_bits(seed, index) >> 41) + 0.5f) * 0x1p-23f;
}

/// A standard normal number (Box–Muller).
inline float random_normal(std::uint64_t seed, std::uint64_t index) {
  const float radius = std::sqrt(-2.0f * std::log(random_uniform(seed, 2 * index)));
  return radius * std::cos(2.0f * std::numbers::pi_v<float> * random_uniform(seed, 2 * index + 1));
}

/// One row of a matrix of dropout masks: 64 bits that are mixed once, and a few 32-bit operations
/// for each column, which vectorise. The second half of the bits enters between the two
/// multiplications, so that rows whose starts lie close to each other are no shifted copies of one
/// another.
struct DropoutRow {
  std::uint32_t start = 0;
  std::uint32_t twist = 0;

  static constexpr std::uint32_t kColumnStep = 0x9e3779b9u;
  static constexpr std::uint32_t kFirstFactor = 0x7feb352du;
  static constexpr std::uint32_t kSecondFactor = 0x846ca68bu;

  /// 31 well-mixed bits of a column.
  std::uint32_t bits(std::uint32_t column) const {
    std::uint32_t x = start + column * kColumnStep;
    x = (x ^ (x >> 16)) * kFirstFactor;
    x = (x ^ (x >> 15) ^ twist) * kSecondFactor;
    return x >> 1;
  }
};

/// Inverted dropout: element `index` is kept with probability 1 − rate and then divided by it. The
/// mask depends on the seed and the index alone, so a backward pass computes it again.
struct Dropout {
  float rate = 0;
  std::uint64_t seed = 0;

  bool active() const { return rate > 0; }
  float kept_factor() const { return 1.0f / (1.0f - rate); }

  /// For matrices whose elements are too many for 64 bits each, such as attention probabilities:
  /// the element of a column is dropped when the bits of its row are below the threshold.
  DropoutRow row(std::uint64_t index) const {
    const std::uint64_t bits = random_bits(seed, index);
    return {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
  }
  /// Elements in a row lie in rows of this many columns.
  static constexpr std::uint64_t kColumns = 1u << 16;
  std::uint32_t threshold() const { return static_cast<std::uint32_t>(rate * 0x1p31f); }
  /// 0 for a dropped element, else 1 / (1 − rate).
  float factor(std::uint64_t index) const {
    const auto column = static_cast<std::uint32_t>(index % kColumns);
    return row(index / kColumns).bits(column) < threshold() ? 0.0f : kept_factor();
  }
};

/// A fp32 tensor of independent N(0, deviation²) numbers.
Tensor random_normal_tensor(const Shape& shape, float deviation, std::uint64_t seed);

}  // namespace longformer
