// Rows of distances for attention with keys and queries of distances, as in DeBERTa
// (arXiv 2006.03654; docs/spec/modern-encoders.md#disentangled).
#pragma once

#include <cstdint>
#include <vector>

#include "ops/context.h"

namespace longformer::ops {

/// Distances up to half of `count` have a row of their own, farther ones share rows up to the
/// distance `most`, by the logarithm; without buckets (count 0) each has its own.
struct LogBuckets {
  Index count = 0, most = 0;
  /// Rows on either side of distance 0.
  Index span() const { return count > 0 ? count : most; }
};

/// Row of each distance −R … R from key to query, in the arithmetic of `transformers`; there are
/// 2 · span rows.
std::vector<std::int32_t> distance_rows(const LogBuckets& buckets, Index farthest);

/// factor · x
Tensor scaled(const Context& context, const Tensor& x, float factor);

}  // namespace longformer::ops
