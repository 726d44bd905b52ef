// Weight of a key in a softmax, the score below which it is 0, and the highest score.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace longformer::kernels {

/// Keys that weigh less than 2^−64 of the heaviest one weigh exactly 0: a million of them would not
/// show in fp32, but their products with values are subnormal, for each of which Intel CPUs take
/// some 150 cycles (46 ms instead of 25 for a layer of 4,096 tokens).
inline constexpr float kNegligibleExponent = -64;
/// Negligible weight as an exponent of e.
inline constexpr float kNegligibleLogit = -44.3614196f;

/// e^x for x ≤ 0 with a relative error below 2e-7, 0 below kNegligibleLogit; a NaN stays. Unlike
/// std::exp it vectorises.
inline float softmax_weight(float x) {
  const float clamped = x < kNegligibleLogit ? kNegligibleLogit : x;
  const float shifted = clamped * 1.44269504f + 12582912.0f;
  const float power = shifted - 12582912.0f;
  const float rest = (clamped - power * 0.693359375f) + power * 2.12194440e-4f;
  float series = 1.9875691500e-4f;
  series = series * rest + 1.3981999507e-3f;
  series = series * rest + 8.3334519073e-3f;
  series = series * rest + 4.1665795894e-2f;
  series = series * rest + 1.6666665459e-1f;
  series = series * rest + 5.0000001201e-1f;
  series = series * rest * rest + rest + 1.0f;
  const auto exponent = (std::bit_cast<std::uint32_t>(shifted) + 127u) << 23;
  const float result = series * std::bit_cast<float>(exponent);
  return x < kNegligibleLogit ? 0.0f : result;
}

/// The greater of two scores; NaN where one is, as it must show in the result.
inline float highest_of(float a, float b) { return a >= b || std::isnan(a) ? a : b; }

}  // namespace longformer::kernels
