#include "kernels/attention/row.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/simd_dispatch.h"
#include "kernels/softmax_weight.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/row.cc"
// clang-format off
#include <hwy/foreach_target.h>  // comes before every other header of Highway
#include <hwy/highway.h>
// clang-format on

#include "kernels/simd_float_inl.h"
#include "kernels/simd_softmax_weight_inl.h"

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {

/// Keys of one step of the online softmax.
constexpr Index kStep = 128;

template <typename T>
float Dot(const T* a, const T* b, Index size) {
  const Index lanes = static_cast<Index>(hn::Lanes(Float()));
  auto sums = hn::Zero(Float());
  Index i = 0;
  for (; i + lanes <= size; i += lanes) {
    sums = hn::MulAdd(LoadFloats(a + i), LoadFloats(b + i), sums);
  }
  float sum = hn::GetLane(hn::SumOfLanes(Float(), sums));
  for (; i < size; ++i) sum += static_cast<float>(a[i]) * static_cast<float>(b[i]);
  return sum;
}

/// The visible keys of one step and what they weigh.
struct Step {
  alignas(64) std::array<float, kStep> weights;
  std::array<Index, kStep> keys;
  Index count = 0;
};

/// out = out·rescale + Σ weight·value, summed on its own first: see LaneState in
/// fused_tile_inl.h.
template <typename T>
void AddValues(const RowAttention& row, const Step& step, float rescale, float* out) {
  const T* values = static_cast<const T*>(row.values);
  const Index lanes = static_cast<Index>(hn::Lanes(Float()));
  Index c = 0;
  for (; c + lanes <= row.head_size; c += lanes) {
    auto sum = hn::Zero(Float());
    for (Index j = 0; j < step.count; ++j) {
      const auto weight = hn::Set(Float(), step.weights[j]);
      sum = hn::MulAdd(weight, LoadFloats(values + step.keys[j] * row.head_size + c), sum);
    }
    const auto before = hn::LoadU(Float(), out + c);
    hn::StoreU(hn::MulAdd(before, hn::Set(Float(), rescale), sum), Float(), out + c);
  }
  for (; c < row.head_size; ++c) {
    float sum = 0;
    for (Index j = 0; j < step.count; ++j) {
      sum += step.weights[j] * static_cast<float>(values[step.keys[j] * row.head_size + c]);
    }
    out[c] = out[c] * rescale + sum;
  }
}

/// Turns the first `keys` scores into weights relative to `highest` and returns their sum.
float Weights(float* scores, Index keys, float highest) {
  const Index lanes = static_cast<Index>(hn::Lanes(Float()));
  const auto shift = hn::Set(Float(), highest);
  const Index padded = (keys + lanes - 1) / lanes * lanes;
  std::fill(scores + keys, scores + padded, -std::numeric_limits<float>::infinity());
  auto sums = hn::Zero(Float());
  for (Index j = 0; j < padded; j += lanes) {
    const auto exponent = hn::Sub(hn::Load(Float(), scores + j), shift);
    const auto weight = SoftmaxWeight(Float(), exponent);
    hn::Store(weight, Float(), scores + j);
    sums = hn::Add(sums, weight);
  }
  return hn::GetLane(hn::SumOfLanes(Float(), sums));
}

template <typename T>
float AttendRowOf(const RowAttention& row, float* out) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const float scale = 1.0f / std::sqrt(static_cast<float>(row.head_size));
  const T* query = static_cast<const T*>(row.query);
  const T* keys = static_cast<const T*>(row.keys);
  Step step;
  float highest = kNone;
  float denominator = 0;
  std::fill_n(out, row.head_size, 0.0f);
  for (Index first = 0; first < row.count; first += kStep) {
    const Index end = std::min(first + kStep, row.count);
    float top = kNone;
    step.count = 0;
    for (Index key = first; key < end; ++key) {
      if (row.visible != nullptr && row.visible[key] == 0) continue;
      const float score = scale * Dot(query, keys + key * row.head_size, row.head_size);
      top = highest_of(top, score);
      step.keys[step.count] = key;
      step.weights[step.count++] = score;
    }
    if (step.count == 0) continue;
    const float raised = highest_of(highest, top);
    if (raised == kNone) continue;
    const float rescale = softmax_weight(highest - raised);
    denominator = denominator * rescale + Weights(step.weights.data(), step.count, raised);
    highest = raised;
    AddValues<T>(row, step, rescale, out);
  }
  if (highest == kNone) return kNone;
  for (Index c = 0; c < row.head_size; ++c) out[c] /= denominator;
  return highest + std::log(denominator);
}

float AttendRow(const RowAttention& row, float* out) {
  return row.dtype == DType::bf16 ? AttendRowOf<BFloat16>(row, out) : AttendRowOf<float>(row, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {

HWY_EXPORT(AttendRow);

float attend_row(const RowAttention& row, float* out) {
  limit_simd_targets();
  return HWY_DYNAMIC_DISPATCH(AttendRow)(row, out);
}

}  // namespace longformer::kernels
#endif
