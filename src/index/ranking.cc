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

Fusion::Scale Fusion::scale_of(std::span<const float> scores) {
  if (scores.empty()) return {};
  const auto count = static_cast<double>(scores.size());
  double sum = 0, squares = 0;
  for (const float score : scores) sum += score;
  const double mean = sum / count;
  for (const float score : scores) squares += (score - mean) * (score - mean);
  const double deviation = std::sqrt(squares / count);
  return {.mean = static_cast<float>(mean),
          .factor = deviation > kLeastDeviation ? static_cast<float>(1 / deviation) : 0.0f};
}

Fusion::Fusion(std::span<const std::span<const float>> kinds, double reach)
    : words_factor_(static_cast<float>(kWeightOfWords / std::max(reach, kLeastReach))) {
  for (const std::span<const float> scores : kinds) scales_.push_back(scale_of(scores));
}

float Fusion::operator()(std::span<const float> scores, float words) const {
  float sum = 0;
  for (std::size_t kind = 0; kind < scales_.size(); ++kind) {
    sum += (scores[kind] - scales_[kind].mean) * scales_[kind].factor;
  }
  if (scales_.size() > 1) sum /= static_cast<float>(scales_.size());
  return sum + words * words_factor_;
}

}  // namespace longformer::index
