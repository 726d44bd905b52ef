#include "engine/frame/scores.h"

#include <algorithm>
#include <cmath>

namespace longformer::engine {

std::vector<float> softmax(std::span<const float> logits) {
  std::vector<float> scores;
  if (logits.empty()) return scores;
  const auto largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  for (const float logit : logits) {
    scores.push_back(static_cast<float>(std::exp(static_cast<double>(logit) - largest) / sum));
  }
  return scores;
}

std::vector<float> sigmoid(std::span<const float> logits) {
  std::vector<float> scores;
  for (const float logit : logits) {
    scores.push_back(static_cast<float>(1 / (1 + std::exp(-static_cast<double>(logit)))));
  }
  return scores;
}

}  // namespace longformer::engine
