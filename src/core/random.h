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

/// Uniform in (0, 1).
inline float random_uniform(std::uint64_t seed, std::uint64_t index) {
  return (static_cast<float>(random_bits(seed, index) >> 41) + 0.5f) * 0x1p-23f;
}

/// Standard normal (Box–Muller).
inline float random_normal(std::uint64_t seed, std::uint64_t index) {
  const float radius = std::sqrt(-2.0f * std::log(random_uniform(seed, 2 * index)));
  return radius * std::cos(2.0f * std::numbers::pi_v<float> * random_uniform(seed, 2 * index + 1));
}

/// Inverted dropout: element `index` is kept with probability 1 − rate and then divided by it. The
/// mask depends on the seed and the index alone, so a backward pass computes it again.
struct Dropout {
  float rate = 0;
  std::uint64_t seed = 0;

  bool active() const { return rate > 0; }
  /// 0 for a dropped element, else 1 / (1 − rate).
  float factor(std::uint64_t index) const {
    return random_uniform(seed, index) < rate ? 0.0f : 1.0f / (1.0f - rate);
  }
};

/// A fp32 tensor of independent N(0, deviation²) numbers.
Tensor random_normal_tensor(const Shape& shape, float deviation, std::uint64_t seed);

}  // namespace longformer
