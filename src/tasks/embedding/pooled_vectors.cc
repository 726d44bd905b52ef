#include "tasks/embedding/pooled_vectors.h"

#include <cmath>
#include <limits>
#include <utility>

namespace longformer::tasks {

PooledVectors::PooledVectors(VectorFold fold, Index vectors, Index width)
    : fold_(fold),
      width_(width),
      values_(at(vectors * width),
              fold == VectorFold::maximum ? -std::numeric_limits<float>::infinity() : 0.0f),
      counts_(at(vectors), 0) {}

void PooledVectors::add(std::span<const Index> vectors, std::span<const ops::RowRange> ranges,
                        std::span<const float> folded) {
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    const float* from = folded.data() + i * at(width_);
    float* to = values_.data() + vectors[i] * width_;
    for (Index c = 0; c < width_; ++c) {
      to[c] = fold_ == VectorFold::maximum ? ops::larger(to[c], from[c]) : to[c] + from[c];
    }
    counts_[at(vectors[i])] += ranges[i].end - ranges[i].begin;
  }
}

std::vector<float> PooledVectors::finish() {
  for (std::size_t v = 0; v < counts_.size(); ++v) {
    if (fold_ == VectorFold::maximum || counts_[v] <= 1) continue;
    const auto count = static_cast<float>(counts_[v]);
    const float divisor = fold_ == VectorFold::mean_sqrt ? std::sqrt(count) : count;
    for (float& x : std::span(values_).subspan(v * at(width_), at(width_))) x /= divisor;
  }
  counts_.clear();
  return std::move(values_);
}

}  // namespace longformer::tasks
