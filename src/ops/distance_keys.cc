#include "ops/distance_keys.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "kernels/elementwise.h"
#include "ops/device.h"
#include "ops/gradients.h"
#include "ops/row_blocks.h"

namespace longformer::ops {
namespace {

void multiply_all(const Context& context, float factor, Tensor& x) {
  for_elements(context, x, [&](Index, Index count, std::size_t at) {
    kernels::scale(factor, static_cast<std::byte*>(x.raw()) + at, count, x.dtype());
  });
}

/// The distance itself, or that which stands for it; each step in fp32.
Index bucket_of(Index distance, const LogBuckets& buckets) {
  const Index middle = buckets.count / 2, steps = std::abs(distance);
  if (buckets.count == 0 || steps <= middle) return distance;
  const auto half = static_cast<float>(middle);
  const float far = std::log(static_cast<float>(steps) / half);
  const float whole = std::log(
      static_cast<float>(static_cast<double>(buckets.most - 1) / static_cast<double>(middle)));
  const float place = std::ceil(far / whole * static_cast<float>(middle - 1)) + half;
  return static_cast<Index>(distance < 0 ? -place : place);
}

}  // namespace

std::vector<std::int32_t> distance_rows(const LogBuckets& buckets, Index farthest) {
  std::vector<std::int32_t> rows;
  const Index span = buckets.span();
  for (Index distance = -farthest; distance <= farthest; ++distance) {
    const Index row = std::clamp<Index>(bucket_of(distance, buckets) + span, 0, 2 * span - 1);
    rows.push_back(static_cast<std::int32_t>(row));
  }
  return rows;
}

Tensor scaled(const Context& context, const Tensor& x, float factor) {
  refuse_device("scaled", x);
  Tensor y = context.memory.tensor(x.shape(), x.dtype());
  std::memcpy(y.raw(), x.raw(), x.bytes());
  multiply_all(context, factor, y);
  if (!wants_backward(context, x)) return y;
  record(context, "scaled", y, [context, x, factor](Tensor gradient) {
    multiply_all(context, factor, gradient);
    send_gradient(context, x, std::move(gradient));
  });
  return y;
}

}  // namespace longformer::ops
