#include "index/ranking.h"

#include <algorithm>
#include <cmath>

namespace longformer::index {
namespace {

constexpr double kWeightOfWords = 14;
/// Score that a word of rarity 1 can reach. A word in half of the passages can reach almost
/// nothing, and no passage may get a large share of that.
constexpr double kLeastReach = 2.2;

/// Cosines that are alike but for rounding have a smaller standard deviation.
constexpr double kLeastDeviation = 1e-6;

}  // namespace

Fusion::Fusion(std::span<const float> cosines, double reach) {
  words_factor_ = static_cast<float>(kWeightOfWords / std::max(reach, kLeastReach));
  if (cosines.empty()) return;
  const auto count = static_cast<double>(cosines.size());
  double sum = 0, squares = 0;
  for (const float cosine : cosines) sum += cosine;
  const double mean = sum / count;
  for (const float cosine : cosines) squares += (cosine - mean) * (cosine - mean);
  const double deviation = std::sqrt(squares / count);
  mean_ = static_cast<float>(mean);
  cosine_factor_ = deviation > kLeastDeviation ? static_cast<float>(1 / deviation) : 0.0f;
}

float Fusion::operator()(float cosine, float words) const {
  return (cosine - mean_) * cosine_factor_ + words * words_factor_;
}

}  // namespace longformer::index
