#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "kernels/simd_dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// These follow foreach_target.h, which includes this file once for each instruction set.
#include "kernels/simd_float_inl.h"
#include "kernels/simd_softmax_weight_inl.h"

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Logits of one step of the sums: short enough for fp32, the steps are added in double.
constexpr Index kStep = 1024;

struct ExpSums {
  float highest = 0;
  /// Σ e^(logit − highest).
  double denominator = 0;
  /// Σ (logit − highest).
  double total = 0;
};

ExpSums SumsOf(const float* logits, Index count) {
  const Float d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  ExpSums sums = {.highest = *std::max_element(logits, logits + count)};
  const auto top = hn::Set(d, sums.highest);
  for (Index begin = 0; begin < count; begin += kStep) {
    const Index end = std::min(begin + kStep, count);
    auto powers = hn::Zero(d), values = hn::Zero(d);
    Index c = begin;
    for (; c + lanes <= end; c += lanes) {
      const auto shifted = hn::Sub(LoadFloats(logits + c), top);
      powers = hn::Add(powers, SoftmaxWeight(d, shifted));
      values = hn::Add(values, shifted);
    }
    sums.denominator += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, powers)));
    sums.total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, values)));
    for (; c < end; ++c) {
      sums.denominator += static_cast<double>(softmax_weight(logits[c] - sums.highest));
      sums.total += static_cast<double>(logits[c] - sums.highest);
    }
  }
  return sums;
}

void LogSoftmax(float* logits, Index count) {
  const Float d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  const ExpSums sums = SumsOf(logits, count);
  const auto shift = static_cast<float>(sums.highest + std::log(sums.denominator));
  Index c = 0;
  for (; c + lanes <= count; c += lanes) {
    StoreFloats(hn::Sub(LoadFloats(logits + c), hn::Set(d, shift)), logits + c);
  }
  for (; c < count; ++c) logits[c] -= shift;
}

double CrossEntropy(float* logits, Index count, const RowTarget& target, double scale) {
  const Float d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  const auto [highest, denominator, total] = SumsOf(logits, count);
  const double even = target.smoothing / static_cast<double>(count);
  const double logsumexp = std::log(denominator);
  const double right = static_cast<double>(logits[target.label]) - highest;
  double loss = (1 - target.smoothing) * (logsumexp - right);
  // A logit of −∞ makes the total −∞, which must not meet a factor of 0.
  if (even > 0) loss += even * (static_cast<double>(count) * logsumexp - total);
  if (scale == 0) return loss;
  const auto factor = static_cast<float>(scale);
  const auto shift = static_cast<float>(highest + logsumexp);
  const auto less = static_cast<float>(even * scale);
  Index c = 0;
  for (; c + lanes <= count; c += lanes) {
    const auto probability = SoftmaxWeight(d, hn::Sub(LoadFloats(logits + c), hn::Set(d, shift)));
    StoreFloats(hn::MulSub(probability, hn::Set(d, factor), hn::Set(d, less)), logits + c);
  }
  for (; c < count; ++c) logits[c] = softmax_weight(logits[c] - shift) * factor - less;
  logits[target.label] -= static_cast<float>((1 - target.smoothing) * scale);
  return loss;
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {

HWY_EXPORT(CrossEntropy);
HWY_EXPORT(LogSoftmax);

void log_softmax(float* logits, Index count) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(LogSoftmax)(logits, count);
}

double softmax_cross_entropy(float* logits, Index count, const RowTarget& target, double scale) {
  limit_simd_targets();
  return HWY_DYNAMIC_DISPATCH(CrossEntropy)(logits, count, target, scale);
}

}  // namespace longformer::kernels
#endif
