#include "index/vector_scores.h"

#include <algorithm>
#include <cmath>
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

ErrorOfBytes::ErrorOfBytes(Similarity kind, std::span<const float> query) {
  const auto width = static_cast<double>(query.size());
  double sum = 0, squares = 0;
  for (const float number : query) {
    sum += std::abs(static_cast<double>(number));
    squares += static_cast<double>(number) * number;
  }
  // A number is off by half a scale; the rest is what sums in fp32 round away.
  constexpr double kHalf = 0.51, kRounding = 1e-5;
  switch (kind) {
    case Similarity::manhattan:
      factor_ = static_cast<float>(kHalf * width);
      rounding_ = static_cast<float>(kRounding * sum);
      return;
    case Similarity::euclidean:
      factor_ = static_cast<float>(kHalf * std::sqrt(width));
      rounding_ = static_cast<float>(kRounding * std::sqrt(squares));
      return;
    case Similarity::cosine:
    case Similarity::dot:
      break;
  }
  // The error of scan() for vectors whose numbers are all as large as bytes are.
  const double query_scale = kernels::integer_query(query).scale;
  factor_ = static_cast<float>(kHalf * (sum + query_scale * width * (kernels::kByteLevels + 1)));
}

float compare(Similarity kind, std::span<const float> a, std::span<const float> b) {
  const float found = similarity(is_product(kind) ? Similarity::dot : kind, a, b);
  // Vectors of a length near 1 give cosines a little beyond it.
  return kind == Similarity::cosine ? std::clamp(found, -1.0f, 1.0f) : found;
}

}  // namespace longformer::index
