#include "kernels/link_scan.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cassert>

#include "kernels/simd_dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/link_scan.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

float RowProduct(std::span<const float> a, std::span<const float> b) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d), count = a.size();
  // Four sums hide the latency of an addition.
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  std::size_t c = 0;
  const auto times = [&](std::size_t from, auto sum) HWY_ATTR {
    return hn::MulAdd(hn::LoadU(d, a.data() + from), hn::LoadU(d, b.data() + from), sum);
  };
  for (; c + 4 * lanes <= count; c += 4 * lanes) {
    sum0 = times(c, sum0);
    sum1 = times(c + lanes, sum1);
    sum2 = times(c + 2 * lanes, sum2);
    sum3 = times(c + 3 * lanes, sum3);
  }
  for (; c + lanes <= count; c += lanes) sum0 = times(c, sum0);
  const auto all = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  float total = hn::GetLane(hn::SumOfLanes(d, all));
  for (; c < count; ++c) total += a[c] * b[c];
  return total;
}

void PlacesAbove(std::span<const float> values, float limit, std::vector<Index>& places) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d), count = values.size();
  const auto most = hn::Set(d, limit);
  const auto one = [&](std::size_t place) {
    if (!(values[place] <= limit)) places.push_back(static_cast<Index>(place));
  };
  const auto within = [&](std::size_t place)
                          HWY_ATTR { return hn::Le(hn::LoadU(d, values.data() + place), most); };
  // Few values are above, so a branch for four vectors suffices.
  std::size_t place = 0;
  for (; place + 4 * lanes <= count; place += 4 * lanes) {
    const auto first = hn::And(within(place), within(place + lanes));
    const auto second = hn::And(within(place + 2 * lanes), within(place + 3 * lanes));
    if (hn::AllTrue(d, hn::And(first, second))) continue;
    for (std::size_t i = 0; i < 4 * lanes; ++i) one(place + i);
  }
  for (; place < count; ++place) one(place);
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {
namespace {

constexpr std::size_t kCacheLine = 64;

HWY_EXPORT(RowProduct);
HWY_EXPORT(PlacesAbove);

}  // namespace

float row_product(std::span<const float> a, std::span<const float> b) {
  assert(a.size() == b.size());
  limit_simd_targets();
  return HWY_DYNAMIC_DISPATCH(RowProduct)(a, b);
}

void prefetch_row(const Tensor& matrix, Index row) {
  const std::size_t bytes = matrix.bytes() / at(matrix.rows());
  const auto* begin = static_cast<const std::byte*>(matrix.raw()) + at(row) * bytes;
  for (std::size_t line = 0; line < bytes; line += kCacheLine) hwy::Prefetch(begin + line);
}

void places_above(std::span<const float> values, float limit, std::vector<Index>& places) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(PlacesAbove)(values, limit, places);
}

}  // namespace longformer::kernels
#endif
