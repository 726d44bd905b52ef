#include "kernels/int8_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/simd_dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/int8_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// These follow foreach_target.h, which includes this file once for each instruction set.
#include "kernels/simd_activation_inl.h"
#include "kernels/simd_float_inl.h"

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Bits of the largest |x|: those of floats grow with them, and NaN is above infinity.
template <typename Bits>
Bits LargestBits(const Bits* x, Index count) {
  constexpr auto kSize = static_cast<Bits>(std::numeric_limits<Bits>::max() >> 1);
  const hn::ScalableTag<Bits> tag;
  const auto lanes = static_cast<Index>(hn::Lanes(tag));
  auto most = hn::Zero(tag);
  Index i = 0;
  for (; i + lanes <= count; i += lanes) {
    most = hn::Max(most, hn::And(hn::LoadU(tag, x + i), hn::Set(tag, kSize)));
  }
  HWY_ALIGN Bits each[HWY_MAX_BYTES / sizeof(Bits)];
  hn::Store(most, tag, each);
  Bits largest = *std::max_element(each, each + lanes);
  for (; i < count; ++i) largest = std::max(largest, static_cast<Bits>(x[i] & kSize));
  return largest;
}

float LargestOf(const float* x, Index count) {
  return std::bit_cast<float>(LargestBits(reinterpret_cast<const std::uint32_t*>(x), count));
}

float LargestOf(const BFloat16* x, Index count) {
  BFloat16 largest;
  largest.bits = LargestBits(reinterpret_cast<const std::uint16_t*>(x), count);
  return static_cast<float>(largest);
}

template <typename T>
void QuantizeRow(const T* x, Index count, float factor, std::int8_t* to) {
  const hn::RebindToSigned<Float> whole;
  const hn::Rebind<std::int8_t, Float> narrow;
  const Index lanes = LaneCount();
  const auto factors = hn::Set(kFloat, factor);
  Index i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto rounded = hn::NearestInt(hn::Mul(LoadFloats(x + i), factors));
    hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(whole, rounded)), narrow, to + i);
  }
  for (; i < count; ++i) {
    to[i] = static_cast<std::int8_t>(std::nearbyint(static_cast<float>(x[i]) * factor));
  }
}

template <typename T>
void QuantizeTyped(const T* x, Index rows, Index columns, const Int8Rows& to) {
  constexpr float kLeast = 0x1p-100f, kMost = 127;
  for (Index row = 0; row < rows; ++row) {
    const T* from = x + row * columns;
    std::int8_t* numbers = to.numbers + row * columns;
    const float largest = LargestOf(from, columns);
    if (largest >= kLeast && std::isfinite(largest)) {
      to.scales[row] = largest / kMost;
      QuantizeRow(from, columns, kMost / largest, numbers);
      continue;
    }
    to.scales[row] = largest < kLeast ? 0 : std::numeric_limits<float>::quiet_NaN();
    std::fill_n(numbers, columns, std::int8_t{0});
  }
}

void QuantizeRows(const void* x, DType dtype, Index rows, Index columns, const Int8Rows& to) {
  if (dtype == DType::bf16) {
    return QuantizeTyped(static_cast<const BFloat16*>(x), rows, columns, to);
  }
  QuantizeTyped(static_cast<const float*>(x), rows, columns, to);
}

/// Columns of a row that are finished together: whole vectors, or a padded rest.
template <typename T, typename Value>
void FinishTyped(const Int8Sums& s, T* y, const Value& value) {
  const hn::RebindToSigned<Float> whole;
  const Index lanes = LaneCount();
  const Index rest = s.columns % lanes, most = s.columns - rest;
  for (Index row = 0; row < s.rows; ++row) {
    const std::int32_t* sums = s.sums + row * s.columns;
    T* to = y + row * s.columns;
    const auto scale = hn::Set(kFloat, s.row_scales[row]);
    const auto finish = [&](const std::int32_t* from, const float* scales, const float* bias) {
      const auto scaled = hn::Mul(hn::ConvertTo(kFloat, hn::LoadU(whole, from)), scale);
      const auto added = bias == nullptr ? hn::Zero(kFloat) : hn::LoadU(kFloat, bias);
      return value(hn::MulAdd(scaled, hn::LoadU(kFloat, scales), added));
    };
    for (Index c = 0; c < most; c += lanes) {
      StoreFloats(finish(sums + c, s.column_scales + c, s.bias == nullptr ? nullptr : s.bias + c),
                  to + c);
    }
    if (rest == 0) continue;
    HWY_ALIGN std::int32_t last[HWY_MAX_BYTES / sizeof(float)] = {};
    HWY_ALIGN float scales[HWY_MAX_BYTES / sizeof(float)] = {};
    HWY_ALIGN float bias[HWY_MAX_BYTES / sizeof(float)] = {};
    HWY_ALIGN T result[HWY_MAX_BYTES / sizeof(float)];
    std::copy_n(sums + most, rest, last);
    std::copy_n(s.column_scales + most, rest, scales);
    if (s.bias != nullptr) std::copy_n(s.bias + most, rest, bias);
    StoreFloats(finish(last, scales, bias), result);
    std::copy_n(result, rest, to + most);
  }
}

template <typename T>
void FinishActivated(const Int8Sums& s, T* y) {
  if (!s.activation) return FinishTyped(s, y, [](FloatVector x) { return x; });
  WithActivation(*s.activation, [&](auto kind) {
    constexpr Activation kActivation = kind();
    FinishTyped(s, y, [](FloatVector x) { return ValueOf<kActivation>(x); });
  });
}

void FinishRows(const Int8Sums& sums, void* y, DType dtype) {
  if (dtype == DType::bf16) return FinishActivated(sums, static_cast<BFloat16*>(y));
  FinishActivated(sums, static_cast<float*>(y));
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {

HWY_EXPORT(QuantizeRows);
HWY_EXPORT(FinishRows);

void quantize_rows(const void* x, DType dtype, Index rows, Index columns, const Int8Rows& to) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(QuantizeRows)(x, dtype, rows, columns, to);
}

void finish_rows(const Int8Sums& sums, void* y, DType dtype) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(FinishRows)(sums, y, dtype);
}

}  // namespace longformer::kernels
#endif
