#include "kernels/int8_rows.h"

#include <algorithm>
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

/// Numbers of a row that no other would be quantized to are rounded to zero.
constexpr float kLeastScale = 0x1p-100f;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Ends of a row, which has 0 between them or at one of them; NaN where it is not finite.
struct RowEnds {
  float least = 0, most = 0;
};

template <typename T>
RowEnds EndsOf(const T* x, Index count) {
  const Index lanes = LaneCount();
  const auto zero = hn::Zero(kFloat);
  auto least = zero, most = zero, probe = zero;
  const auto look_at = [&](FloatVector value) {
    least = hn::Min(least, value);
    most = hn::Max(most, value);
    // NaN and infinity times 0 are NaN.
    probe = hn::MulAdd(value, zero, probe);
  };
  Index i = 0;
  for (; i + lanes <= count; i += lanes) look_at(LoadFloats(x + i));
  if (i < count) {
    HWY_ALIGN T rest[HWY_MAX_BYTES / sizeof(float)] = {};
    std::copy_n(x + i, count - i, rest);
    look_at(LoadFloats(rest));
  }
  HWY_ALIGN float each[3][HWY_MAX_BYTES / sizeof(float)];
  hn::Store(least, kFloat, each[0]);
  hn::Store(most, kFloat, each[1]);
  hn::Store(probe, kFloat, each[2]);
  RowEnds ends;
  for (Index lane = 0; lane < lanes; ++lane) {
    if (std::isnan(each[2][lane])) return {kNan, kNan};
    ends.least = std::min(ends.least, each[0][lane]);
    ends.most = std::max(ends.most, each[1][lane]);
  }
  return ends;
}

/// Numbers are round(x · factor) + zero, kept within their type.
template <typename T, typename Number>
void QuantizeRow(const T* x, Index count, float factor, std::int32_t zero, Number* to) {
  const hn::RebindToSigned<Float> whole;
  const hn::Rebind<Number, Float> narrow;
  const Index lanes = LaneCount();
  const auto factors = hn::Set(kFloat, factor);
  const auto zeros = hn::Set(whole, zero);
  const auto quantized = [&](FloatVector value) {
    return hn::DemoteTo(narrow, hn::Add(hn::NearestInt(hn::Mul(value, factors)), zeros));
  };
  Index i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(quantized(LoadFloats(x + i)), narrow, to + i);
  }
  if (i == count) return;
  HWY_ALIGN T rest[HWY_MAX_BYTES / sizeof(float)] = {};
  HWY_ALIGN Number numbers[HWY_MAX_BYTES / sizeof(Number)];
  std::copy_n(x + i, count - i, rest);
  hn::StoreU(quantized(LoadFloats(rest)), narrow, numbers);
  std::copy_n(numbers, count - i, to + i);
}

template <typename T>
void QuantizeTyped(const T* x, Index rows, Index columns, const Int8Rows& to) {
  constexpr float kSteps = 255;
  for (Index row = 0; row < rows; ++row) {
    const T* from = x + row * columns;
    std::uint8_t* numbers = to.numbers + row * columns;
    const auto [least, most] = EndsOf(from, columns);
    const float range = most - least;
    const float scale = std::isinf(range) ? most / kSteps - least / kSteps : range / kSteps;
    to.zeros[row] = 0;
    if (scale >= kLeastScale) {
      to.scales[row] = scale;
      to.zeros[row] = static_cast<std::int32_t>(std::nearbyint(-least * (1 / scale)));
      QuantizeRow(from, columns, 1 / scale, to.zeros[row], numbers);
      continue;
    }
    to.scales[row] = std::isnan(scale) ? kNan : 0;
    std::fill_n(numbers, columns, std::uint8_t{0});
  }
}

void QuantizeRows(const void* x, DType dtype, Index rows, Index columns, const Int8Rows& to) {
  if (dtype == DType::bf16) {
    return QuantizeTyped(static_cast<const BFloat16*>(x), rows, columns, to);
  }
  QuantizeTyped(static_cast<const float*>(x), rows, columns, to);
}

void QuantizeWeights(const float* weights, Index rows, Index columns, const Int8Weights& to) {
  constexpr float kMost = 127;
  for (Index row = 0; row < rows; ++row) {
    const float* from = weights + row * columns;
    std::int8_t* numbers = to.numbers + row * columns;
    const auto [least, most] = EndsOf(from, columns);
    const float largest = std::max(most, -least);
    if (largest / kMost >= kLeastScale) {
      to.scales[row] = largest / kMost;
      QuantizeRow(from, columns, kMost / largest, 0, numbers);
      continue;
    }
    to.scales[row] = std::isnan(largest) ? kNan : 0;
    std::fill_n(numbers, columns, std::int8_t{0});
  }
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
    const auto zero = hn::Set(whole, s.zeros[row]);
    const auto finish = [&](const std::int32_t* from, const std::int32_t* column_sums,
                            const float* scales, const float* bias) {
      const auto taken = hn::Mul(zero, hn::LoadU(whole, column_sums));
      const auto sum = hn::Sub(hn::LoadU(whole, from), taken);
      const auto scaled = hn::Mul(hn::ConvertTo(kFloat, sum), scale);
      const auto added = bias == nullptr ? hn::Zero(kFloat) : hn::LoadU(kFloat, bias);
      return value(hn::MulAdd(scaled, hn::LoadU(kFloat, scales), added));
    };
    for (Index c = 0; c < most; c += lanes) {
      StoreFloats(finish(sums + c, s.column_sums + c, s.column_scales + c,
                         s.bias == nullptr ? nullptr : s.bias + c),
                  to + c);
    }
    if (rest == 0) continue;
    HWY_ALIGN std::int32_t last[HWY_MAX_BYTES / sizeof(float)] = {};
    HWY_ALIGN std::int32_t column_sums[HWY_MAX_BYTES / sizeof(float)] = {};
    HWY_ALIGN float scales[HWY_MAX_BYTES / sizeof(float)] = {};
    HWY_ALIGN float bias[HWY_MAX_BYTES / sizeof(float)] = {};
    HWY_ALIGN T result[HWY_MAX_BYTES / sizeof(float)];
    std::copy_n(sums + most, rest, last);
    std::copy_n(s.column_sums + most, rest, column_sums);
    std::copy_n(s.column_scales + most, rest, scales);
    if (s.bias != nullptr) std::copy_n(s.bias + most, rest, bias);
    StoreFloats(finish(last, column_sums, scales, bias), result);
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
HWY_EXPORT(QuantizeWeights);
HWY_EXPORT(FinishRows);

void quantize_rows(const void* x, DType dtype, Index rows, Index columns, const Int8Rows& to) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(QuantizeRows)(x, dtype, rows, columns, to);
}

void quantize_weights(const float* weights, Index rows, Index columns, const Int8Weights& to) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(QuantizeWeights)(weights, rows, columns, to);
}

Int8Matrix quantized(const Tensor& weights) {
  const Tensor wide = weights.to(DType::f32);
  Int8Matrix matrix = {.numbers = Tensor(weights.shape(), DType::i8),
                       .scales = Tensor({weights.rows(), 1}, DType::f32)};
  quantize_weights(wide.data<float>(), wide.rows(), wide.columns(),
                   {.numbers = static_cast<std::int8_t*>(matrix.numbers.raw()),
                    .scales = matrix.scales.data<float>()});
  return matrix;
}

Tensor dequantized(const Int8Matrix& matrix) {
  const Index rows = matrix.numbers.rows(), columns = matrix.numbers.columns();
  const Tensor scales = matrix.scales.to(DType::f32);
  Tensor wide({rows, columns}, DType::f32);
  const auto* numbers = static_cast<const std::int8_t*>(matrix.numbers.raw());
  for (Index row = 0; row < rows; ++row) {
    const float scale = scales.data<float>()[row];
    for (Index i = row * columns; i < (row + 1) * columns; ++i) {
      wide.data<float>()[i] = static_cast<float>(numbers[i]) * scale;
    }
  }
  return wide;
}

void finish_rows(const Int8Sums& sums, void* y, DType dtype) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(FinishRows)(sums, y, dtype);
}

}  // namespace longformer::kernels
#endif
