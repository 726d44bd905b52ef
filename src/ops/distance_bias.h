// Biases by distance, which attention adds to its scores: learned ones of T5 (arXiv 1910.10683),
// and the constant ones of ALiBi (arXiv 2108.12409); docs/spec/modern-encoders.md#distances.
//
// Dimensions: H heads, R the farthest distance that has a bias of its own.
#pragma once

#include <vector>

#include "ops/context.h"

namespace longformer::ops {

/// Half of the buckets is for keys behind the query. The first half of each has a bucket for each
/// distance, the others grow like the logarithm, up to the distance `farthest`.
struct DistanceBuckets {
  Index count = 32;
  Index farthest = 128;
};

/// Bucket of a key so many positions behind the query, in the arithmetic of `transformers`.
Index distance_bucket(Index distance, const DistanceBuckets& buckets);

/// A learned table [buckets or more, H] fp32 as biases [H, 2R + 1]: number R + t is that of keys t
/// positions behind the query, and R is the farthest distance.
Tensor bucket_biases(const Context& context, const Tensor& table, const DistanceBuckets& buckets);

/// Slopes of ALiBi, one for each head, as the published code has them.
std::vector<double> distance_slopes(Index heads);

/// −slope · distance as biases [H, 2R + 1].
Tensor slope_biases(const Context& context, Index heads, Index farthest);

}  // namespace longformer::ops
