#include "kernels/features/feature_rows.h"

#include <algorithm>

#include "kernels/simd_dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/features/feature_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// These follow foreach_target.h, which includes this file once for each instruction set.
#include "kernels/simd_float_inl.h"
#include "kernels/simd_softmax_weight_inl.h"

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

Index LanesOf(Float d) { return std::min<Index>(static_cast<Index>(hn::Lanes(d)), kFeatureUnit); }

/// In this order a NaN becomes the maximum and shows in the result.
template <class V>
HWY_INLINE V Greater(V highest, V value) {
  return hn::IfThenElse(hn::Ge(highest, value), highest, value);
}

void ShiftAndRaise(const FeatureRows& logs, const float* shifts, float* maxima) {
  const Float d;
  const Index lanes = LanesOf(d);
  for (Index c = 0; c < logs.stride; c += lanes) {
    auto highest = LoadFloats(maxima + c);
    for (Index row = 0; row < logs.rows; ++row) {
      float* at = logs.values + row * logs.stride + c;
      const auto shifted = hn::Sub(LoadFloats(at), hn::Set(d, shifts[row]));
      StoreFloats(shifted, at);
      highest = Greater(highest, shifted);
    }
    StoreFloats(highest, maxima + c);
  }
}

void ExponentiateKeys(const FeatureRows& logs, const float* maxima, float* sums) {
  const Float d;
  const Index lanes = LanesOf(d);
  for (Index row = 0; row < logs.rows; ++row) {
    float* at = logs.values + row * logs.stride;
    for (Index c = 0; c < logs.stride; c += lanes) {
      const auto power = SoftmaxWeight(d, hn::Sub(LoadFloats(at + c), LoadFloats(maxima + c)));
      StoreFloats(power, at + c);
      StoreFloats(hn::Add(LoadFloats(sums + c), power), sums + c);
    }
  }
}

void ExponentiateQueries(const FeatureRows& logs, const float* maxima, const float* sums,
                         float* denominators) {
  const Float d;
  const Index lanes = LanesOf(d);
  for (Index row = 0; row < logs.rows; ++row) {
    float* at = logs.values + row * logs.stride;
    auto highest = hn::Add(LoadFloats(at), LoadFloats(maxima));
    for (Index c = 0; c < logs.stride; c += lanes) {
      const auto raised = hn::Add(LoadFloats(at + c), LoadFloats(maxima + c));
      StoreFloats(raised, at + c);
      highest = Greater(highest, raised);
    }
    const auto top = hn::MaxOfLanes(d, highest);
    auto sum = hn::Zero(d);
    for (Index c = 0; c < logs.stride; c += lanes) {
      const auto power = SoftmaxWeight(d, hn::Sub(LoadFloats(at + c), top));
      StoreFloats(power, at + c);
      sum = hn::MulAdd(power, LoadFloats(sums + c), sum);
    }
    denominators[row] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

void MultiplyRows(const float* a, const float* b, Index rows, Index columns, float* products) {
  const Float d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  for (Index row = 0; row < rows; ++row) {
    const float *left = a + row * columns, *right = b + row * columns;
    auto sum = hn::Zero(d);
    Index c = 0;
    for (; c + lanes <= columns; c += lanes) {
      sum = hn::MulAdd(LoadFloats(left + c), LoadFloats(right + c), sum);
    }
    float product = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; c < columns; ++c) product += left[c] * right[c];
    products[row] = product;
  }
}

void FinishGradients(const FeatureRows& values, const float* shifts, const float* added,
                     const float* factors) {
  const Float d;
  const Index lanes = LanesOf(d);
  for (Index row = 0; row < values.rows; ++row) {
    const Index begin = row * values.stride;
    const auto shift = hn::Set(d, shifts[row]);
    for (Index c = 0; c < values.stride; c += lanes) {
      float* at = values.values + begin + c;
      const auto sum = hn::MulAdd(shift, LoadFloats(added + c), LoadFloats(at));
      StoreFloats(hn::Mul(sum, LoadFloats(factors + begin + c)), at);
    }
  }
}

void SumFeatures(const FeatureRows& values, float* sums) {
  const Float d;
  const Index lanes = LanesOf(d);
  for (Index row = 0; row < values.rows; ++row) {
    const float* at = values.values + row * values.stride;
    auto sum = hn::Zero(d);
    for (Index c = 0; c < values.stride; c += lanes) sum = hn::Add(sum, LoadFloats(at + c));
    sums[row] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {

HWY_EXPORT(ShiftAndRaise);
HWY_EXPORT(ExponentiateKeys);
HWY_EXPORT(ExponentiateQueries);
HWY_EXPORT(MultiplyRows);
HWY_EXPORT(FinishGradients);
HWY_EXPORT(SumFeatures);

void shift_and_raise(const FeatureRows& logs, const float* shifts, float* maxima) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(ShiftAndRaise)(logs, shifts, maxima);
}

void exponentiate_keys(const FeatureRows& logs, const float* maxima, float* sums) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(ExponentiateKeys)(logs, maxima, sums);
}

void exponentiate_queries(const FeatureRows& logs, const float* maxima, const float* sums,
                          float* denominators) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(ExponentiateQueries)(logs, maxima, sums, denominators);
}

void multiply_rows(const float* a, const float* b, Index rows, Index columns, float* products) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(MultiplyRows)(a, b, rows, columns, products);
}

void finish_gradients(const FeatureRows& values, const float* shifts, const float* added,
                      const float* factors) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(FinishGradients)(values, shifts, added, factors);
}

void sum_features(const FeatureRows& values, float* sums) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(SumFeatures)(values, sums);
}

}  // namespace longformer::kernels
#endif
