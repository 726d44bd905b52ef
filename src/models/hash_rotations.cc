#include "models/hash_rotations.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>
#include <random>
#include <span>

namespace longformer::models {
namespace {

/// Numbers that torch turns into normal ones together.
constexpr std::size_t kTogether = 16;

/// Sixteen uniform numbers of [0, 1) in place: the first half are radii, the second angles.
void to_normals(std::span<float> numbers) {
  constexpr std::size_t kHalf = kTogether / 2;
  for (std::size_t i = 0; i < kHalf; ++i) {
    const float radius = std::sqrt(-2.0f * std::log(1.0f - numbers[i]));
    const float angle = 2.0f * std::numbers::pi_v<float> * numbers[i + kHalf];
    numbers[i] = radius * std::cos(angle);
    numbers[i + kHalf] = radius * std::sin(angle);
  }
}

void draw_uniform(std::mt19937& generator, std::span<float> numbers) {
  for (float& number : numbers) {
    number = static_cast<float>(generator() & 0xffffffu) * 0x1p-24f;
  }
}

/// Fewer than sixteen are drawn one by one, in double.
void draw_few(std::mt19937& generator, std::span<float> numbers) {
  const auto uniform = [&] {
    const std::uint64_t high = generator();
    return static_cast<double>(((high << 32) | generator()) & ((std::uint64_t{1} << 53) - 1)) *
           0x1p-53;
  };
  std::optional<double> second;
  for (float& number : numbers) {
    if (second) {
      number = static_cast<float>(*second);
      second.reset();
      continue;
    }
    const double angle = 2 * std::numbers::pi * uniform();
    const double radius = std::sqrt(-2 * std::log1p(-uniform()));
    number = static_cast<float>(radius * std::cos(angle));
    second = radius * std::sin(angle);
  }
}

}  // namespace

Tensor torch_normals(const Shape& shape, std::uint64_t seed) {
  std::mt19937 generator(static_cast<std::uint32_t>(seed));
  std::vector<float> numbers(at(element_count(shape)));
  const std::span<float> all(numbers);
  if (numbers.size() < kTogether) {
    draw_few(generator, all);
  } else {
    draw_uniform(generator, all);
    for (std::size_t i = 0; i + kTogether <= numbers.size(); i += kTogether) {
      to_normals(all.subspan(i, kTogether));
    }
    // The last sixteen again, where they are no whole block.
    if (numbers.size() % kTogether != 0) {
      draw_uniform(generator, all.last(kTogether));
      to_normals(all.last(kTogether));
    }
  }
  return Tensor::from(numbers, shape);
}

std::shared_ptr<const ops::HashRotations> Rotations::of(const std::vector<Index>& factors) const {
  const std::lock_guard lock(mutex_);
  auto& found = drawn_[factors];
  if (found) return found;
  const Index columns = std::accumulate(factors.begin(), factors.end(), Index{0}) / 2;
  ops::HashRotations hash;
  hash.rotations = torch_normals({size_.heads, size_.head_size, size_.rounds, columns}, size_.seed)
                       .reshaped({size_.heads, size_.head_size, size_.rounds * columns});
  hash.rounds = size_.rounds;
  hash.factors = factors;
  found = std::make_shared<const ops::HashRotations>(std::move(hash));
  return found;
}

}  // namespace longformer::models
