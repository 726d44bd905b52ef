#include "index/vector_scores.h"

#include <algorithm>
#include <vector>

#include "core/threads.h"

namespace longformer::index {
namespace {

bool is_product(Similarity kind) { return kind == Similarity::cosine || kind == Similarity::dot; }

/// Distances need each vector as numbers, a block of rows at a time.
void measure(Similarity kind, const kernels::ByteVectors& vectors, std::span<const float> query,
             std::span<float> scores, int threads) {
  constexpr Index kRows = 1024;
  const Index blocks = (vectors.size() + kRows - 1) / kRows;
  parallel_for(threads, blocks, [&](Index block) {
    std::vector<float> row(query.size());
    const Index end = std::min(vectors.size(), (block + 1) * kRows);
    for (Index i = block * kRows; i < end; ++i) {
      const std::span<const std::int8_t> bytes = vectors.row(i);
      const float scale = vectors.scales[static_cast<std::size_t>(i)];
      std::ranges::transform(bytes, row.begin(), [scale](std::int8_t byte) {
        return scale * static_cast<float>(byte);
      });
      scores[static_cast<std::size_t>(i)] = similarity(kind, row, query);
    }
  });
}

}  // namespace

void compare(Similarity kind, const kernels::ByteVectors& vectors, std::span<const float> query,
             std::span<float> scores, int threads) {
  if (is_product(kind)) return kernels::scan(vectors, query, scores, threads);
  measure(kind, vectors, query, scores, threads);
}

float compare(Similarity kind, std::span<const float> a, std::span<const float> b) {
  const float found = similarity(is_product(kind) ? Similarity::dot : kind, a, b);
  // Vectors of a length near 1 give cosines a little beyond it.
  return kind == Similarity::cosine ? std::clamp(found, -1.0f, 1.0f) : found;
}

}  // namespace longformer::index
