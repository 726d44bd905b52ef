#include "ops/distance_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ops/gradients.h"

namespace longformer::ops {
namespace {

/// Column of the table for each of 2R + 1 distances.
std::vector<Index> buckets_of(const DistanceBuckets& buckets) {
  std::vector<Index> found;
  for (Index t = -buckets.farthest; t <= buckets.farthest; ++t) {
    found.push_back(distance_bucket(t, buckets));
  }
  return found;
}

std::vector<double> slopes_of_power_of_two(Index heads) {
  const double ratio = std::exp2(-std::exp2(-(std::log2(static_cast<double>(heads)) - 3)));
  std::vector<double> slopes;
  for (Index head = 0; head < heads; ++head) {
    slopes.push_back(ratio * std::pow(ratio, static_cast<double>(head)));
  }
  return slopes;
}

}  // namespace

Index distance_bucket(Index distance, const DistanceBuckets& buckets) {
  const Index half = buckets.count / 2, exact = half / 2;
  const Index first = distance > 0 ? half : 0, steps = std::abs(distance);
  if (steps < exact) return first + steps;
  // Each step in fp32, but for the divisor.
  const float far = static_cast<float>(steps) / static_cast<float>(exact);
  const auto whole = static_cast<float>(
      std::log(static_cast<double>(buckets.farthest) / static_cast<double>(exact)));
  const float place = std::log(far) / whole * static_cast<float>(half - exact);
  return first + std::min(exact + static_cast<Index>(place), half - 1);
}

Tensor bucket_biases(const Context& context, const Tensor& table, const DistanceBuckets& buckets) {
  // A small table, from which the host makes the biases of a pass.
  if (table.is_on_device()) {
    return bucket_biases(context, Tensor::from(table.to_floats(), table.shape()), buckets);
  }
  const Index heads = table.columns();
  const std::vector<Index> places = buckets_of(buckets);
  const Index count = std::ssize(places);
  require(table.rows() >= buckets.count, "biases by distance: expected {} buckets, found {}",
          buckets.count, table.rows());
  Tensor biases = context.memory.tensor({heads, count}, DType::f32);
  for (Index head = 0; head < heads; ++head) {
    for (Index i = 0; i < count; ++i) {
      biases.data<float>()[head * count + i] =
          table.data<float>()[places[static_cast<std::size_t>(i)] * heads + head];
    }
  }
  if (!wants_backward(context, table)) return biases;
  record(context, "bucket_biases", biases, [table, places, heads](const Tensor& gradient) {
    float* sums = parameter_gradient(table).data<float>();
    const Index count = std::ssize(places);
    for (Index head = 0; head < heads; ++head) {
      for (Index i = 0; i < count; ++i) {
        sums[places[static_cast<std::size_t>(i)] * heads + head] +=
            gradient.data<float>()[head * count + i];
      }
    }
  });
  return biases;
}

std::vector<double> distance_slopes(Index heads) {
  Index power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes = slopes_of_power_of_two(power);
  // Further heads take every other slope of twice as many.
  const std::vector<double> finer = slopes_of_power_of_two(2 * power);
  for (Index head = power; head < heads; ++head) {
    slopes.push_back(finer[static_cast<std::size_t>(2 * (head - power))]);
  }
  return slopes;
}

Tensor slope_biases(const Context& context, Index heads, Index farthest) {
  const std::vector<double> slopes = distance_slopes(heads);
  const Index count = 2 * farthest + 1;
  Tensor biases = context.memory.tensor({heads, count}, DType::f32);
  for (Index head = 0; head < heads; ++head) {
    const auto slope = static_cast<float>(slopes[static_cast<std::size_t>(head)]);
    for (Index i = 0; i < count; ++i) {
      biases.data<float>()[head * count + i] = -slope * static_cast<float>(std::abs(i - farthest));
    }
  }
  return biases;
}

}  // namespace longformer::ops
