#include "kernels/attention/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/threads.h"
#include "kernels/softmax_weight.h"

namespace longformer::kernels {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

/// The weight of each part in a row, and the logsumexp of all.
float weights_of(std::span<const AttentionPart> parts, Index place, std::span<float> weights) {
  float highest = kNone;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    weights[p] = parts[p].logsumexp.data<float>()[place];
    highest = highest_of(highest, weights[p]);
  }
  if (highest == kNone) {
    std::fill(weights.begin(), weights.end(), 0.0f);
    return kNone;
  }
  float sum = 0;
  for (float& weight : weights) sum += weight = std::exp(weight - highest);
  for (float& weight : weights) weight /= sum;
  return highest + std::log(sum);
}

template <typename T>
void merge_row(std::span<const AttentionPart> parts, Index offset, Index head_size,
               std::span<const float> weights, T* to) {
  for (Index c = 0; c < head_size; ++c) {
    float sum = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      sum += weights[p] * static_cast<float>(parts[p].out.data<T>()[offset + c]);
    }
    to[offset + c] = static_cast<T>(sum);
  }
}

}  // namespace

void merge_attention(std::span<const AttentionPart> parts, Tensor& out, Tensor& logsumexp,
                     int threads) {
  constexpr Index kRows = 64;
  const Index heads = logsumexp.dimension(0), n = logsumexp.dimension(1);
  const Index head_size = out.columns() / heads;
  parallel_for(threads, (n + kRows - 1) / kRows, [&](Index block) {
    std::vector<float> weights(parts.size());
    for (Index row = block * kRows; row < std::min(n, (block + 1) * kRows); ++row) {
      for (Index head = 0; head < heads; ++head) {
        const Index place = head * n + row;
        logsumexp.data<float>()[place] = weights_of(parts, place, weights);
        const Index offset = (row * heads + head) * head_size;
        if (out.dtype() == DType::bf16) {
          merge_row(parts, offset, head_size, weights, out.data<BFloat16>());
        } else {
          merge_row(parts, offset, head_size, weights, out.data<float>());
        }
      }
    }
  });
}

}  // namespace longformer::kernels
