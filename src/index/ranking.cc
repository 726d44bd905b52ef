#include "index/ranking.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace longformer::index {
namespace {

constexpr double kWeightOfWords = 4;

}  // namespace

Fusion::Fusion(std::span<const float> cosines, std::span<const float> words) {
  const auto count = static_cast<double>(cosines.size());
  if (cosines.empty()) return;
  double sum = 0, squares = 0;
  for (const float cosine : cosines) sum += cosine;
  const double mean = sum / count;
  for (const float cosine : cosines) squares += (cosine - mean) * (cosine - mean);
  const double deviation = std::sqrt(squares / count);
  const float most = *std::max_element(words.begin(), words.end());
  mean_ = static_cast<float>(mean);
  cosine_factor_ = deviation > 0 ? static_cast<float>(1 / deviation) : 0.0f;
  words_factor_ = most > 0 ? static_cast<float>(kWeightOfWords / most) : 0.0f;
}

float Fusion::operator()(float cosine, float words) const {
  return (cosine - mean_) * cosine_factor_ + words * words_factor_;
}

}  // namespace longformer::index
