#include "kernels/link_scan.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cassert>

#include "kernels/simd_dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/link_scan.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_float_inl.h"

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
float RowProduct(const T* a, const T* b, std::size_t count) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  // Four sums hide the latency of an addition.
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  std::size_t c = 0;
  const auto times = [&](std::size_t from, auto sum) HWY_ATTR {
    return hn::MulAdd(LoadFloats(a + from), LoadFloats(b + from), sum);
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
  for (; c < count; ++c) total += static_cast<float>(a[c]) * static_cast<float>(b[c]);
  return total;
}

float RowProductFp32(const float* a, const float* b, std::size_t count) {
  return RowProduct(a, b, count);
}
float RowProductBf16(const BFloat16* a, const BFloat16* b, std::size_t count) {
  return RowProduct(a, b, count);
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

HWY_EXPORT(RowProductFp32);
HWY_EXPORT(RowProductBf16);
HWY_EXPORT(PlacesAbove);

}  // namespace

float row_product(const Tensor& a, Index i, const Tensor& b, Index j) {
  assert(a.columns() == b.columns() && a.dtype() == b.dtype());
  limit_simd_targets();
  const Index count = a.columns();
  if (a.dtype() == DType::bf16) {
    return HWY_DYNAMIC_DISPATCH(RowProductBf16)(a.data<BFloat16>() + i * count,
                                                b.data<BFloat16>() + j * count, at(count));
  }
  return HWY_DYNAMIC_DISPATCH(RowProductFp32)(a.data<float>() + i * count,
                                              b.data<float>() + j * count, at(count));
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
