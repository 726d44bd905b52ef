#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "longformer/options.h"

namespace longformer {
namespace {

constexpr std::array<std::string_view, 4> kSimilarityNames = {"cosine", "dot", "euclidean",
                                                              "manhattan"};

/// Adds up term(a[i], b[i]). Several sums let the compiler take several elements at once.
template <typename Term>
float sum_of(std::span<const float> a, std::span<const float> b, Term term) {
  constexpr std::size_t kSums = 16;
  assert(a.size() == b.size());
  std::array<float, kSums> sums = {};
  std::size_t i = 0;
  for (; i + kSums <= a.size(); i += kSums) {
    for (std::size_t k = 0; k < kSums; ++k) sums[k] += term(a[i + k], b[i + k]);
  }
  float sum = std::accumulate(sums.begin(), sums.end(), 0.0f);
  for (; i < a.size(); ++i) sum += term(a[i], b[i]);
  return sum;
}

float dot(std::span<const float> a, std::span<const float> b) {
  return sum_of(a, b, [](float x, float y) { return x * y; });
}

float cosine(std::span<const float> a, std::span<const float> b) {
  const double lengths = static_cast<double>(dot(a, a)) * static_cast<double>(dot(b, b));
  if (lengths <= 0) return 0;
  // Rounding may go beyond 1. A NaN stays one.
  return std::clamp(static_cast<float>(static_cast<double>(dot(a, b)) / std::sqrt(lengths)), -1.0f,
                    1.0f);
}

}  // namespace

Similarity similarity(const std::string& name) {
  for (std::size_t i = 0; i < kSimilarityNames.size(); ++i) {
    if (name == kSimilarityNames[i]) return static_cast<Similarity>(i);
  }
  fail(OptionName("similarity"), "expected cosine, dot, euclidean or manhattan, found \"{}\"",
       name);
}

std::string_view name_of(Similarity similarity) {
  return kSimilarityNames[static_cast<std::size_t>(similarity)];
}

float similarity(Similarity kind, std::span<const float> a, std::span<const float> b) {
  switch (kind) {
    case Similarity::cosine:
      return cosine(a, b);
    case Similarity::dot:
      return dot(a, b);
    case Similarity::euclidean:
      return -std::sqrt(sum_of(a, b, [](float x, float y) { return (x - y) * (x - y); }));
    case Similarity::manhattan:
      break;
  }
  return -sum_of(a, b, [](float x, float y) { return std::abs(x - y); });
}

}  // namespace longformer
