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

/// Rows that share what is read and written once for each feature.
constexpr Index kRowsAtOnce = 4;

/// e^x for x ≤ 0 with a relative error below 8e-5, which bf16 does not show; else as SoftmaxWeight,
/// with six instructions less.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V NarrowWeight(D d, V x) {
  const hn::RebindToUnsigned<D> word;
  const auto is_negligible = hn::Lt(x, hn::Set(d, kNegligibleLogit));
  const auto magic = hn::Set(d, 12582912.0f), to_binary = hn::Set(d, 1.44269504f);
  const auto shifted = hn::MulAdd(x, to_binary, magic);
  const auto rest = hn::MulSub(x, to_binary, hn::Sub(shifted, magic));
  // Minimax for 2^rest on [−1/2, 1/2].
  auto series = hn::MulAdd(hn::Set(d, 5.51716691e-2f), rest, hn::Set(d, 2.42611122e-1f));
  series = hn::MulAdd(series, rest, hn::Set(d, 6.93260985e-1f));
  series = hn::MulAdd(series, rest, hn::Set(d, 9.99928074e-1f));
  // A NaN of bf16 has no low bits that the exponent would be added to.
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(word, shifted));
  const auto scaled = hn::BitCast(d, hn::Add(hn::BitCast(word, series), exponent));
  return hn::IfThenZeroElse(is_negligible, scaled);
}

/// The weight as exact as the type needs it that it is stored in.
HWY_INLINE FloatVector WeightFor(const float* /*to*/, FloatVector x) {
  return SoftmaxWeight(Float(), x);
}
HWY_INLINE FloatVector WeightFor(const BFloat16* /*to*/, FloatVector x) {
  return NarrowWeight(Float(), x);
}

void RaiseMaxima(const FeatureRows& logs, const float* shifts, float* maxima) {
  const Float d;
  const Index lanes = LanesOf(d);
  const auto shifted = [&](Index row, Index c) {
    return hn::Sub(LoadFloats(logs.values + row * logs.stride + c), hn::Set(d, shifts[row]));
  };
  Index row = 0;
  for (; row + kRowsAtOnce <= logs.rows; row += kRowsAtOnce) {
    for (Index c = 0; c < logs.stride; c += lanes) {
      const auto first = Greater(shifted(row, c), shifted(row + 1, c));
      const auto second = Greater(shifted(row + 2, c), shifted(row + 3, c));
      StoreFloats(Greater(LoadFloats(maxima + c), Greater(first, second)), maxima + c);
    }
  }
  for (; row < logs.rows; ++row) {
    for (Index c = 0; c < logs.stride; c += lanes) {
      StoreFloats(Greater(LoadFloats(maxima + c), shifted(row, c)), maxima + c);
    }
  }
}

template <class T>
void ExponentiateKeys(const FeatureRows& logs, T* to, const KeyExponents& in) {
  const Float d;
  const Index lanes = LanesOf(d);
  const auto make = [&](Index row, Index c) {
    const Index at = row * logs.stride + c;
    const auto shifted = hn::Sub(LoadFloats(logs.values + at), hn::Set(d, in.shifts[row]));
    const auto power = WeightFor(to, hn::Sub(shifted, LoadFloats(in.maxima + c)));
    StoreFloats(power, to + at);
    return power;
  };
  Index row = 0;
  for (; row + kRowsAtOnce <= logs.rows; row += kRowsAtOnce) {
    for (Index c = 0; c < logs.stride; c += lanes) {
      auto sum = hn::Add(LoadFloats(in.sums + c), make(row, c));
      sum = hn::Add(sum, make(row + 1, c));
      sum = hn::Add(sum, make(row + 2, c));
      StoreFloats(hn::Add(sum, make(row + 3, c)), in.sums + c);
    }
  }
  for (; row < logs.rows; ++row) {
    for (Index c = 0; c < logs.stride; c += lanes) {
      StoreFloats(hn::Add(LoadFloats(in.sums + c), make(row, c)), in.sums + c);
    }
  }
}

void ExponentiateKeysTo(const FeatureBlock& block, const KeyExponents& in) {
  if (block.narrow != nullptr) {
    ExponentiateKeys(block.wide, block.narrow, in);
  } else {
    ExponentiateKeys(block.wide, block.wide.values, in);
  }
}

template <class T>
void ExponentiateQueries(const FeatureRows& logs, T* to, const QueryExponents& in) {
  const Float d;
  const Index lanes = LanesOf(d);
  for (Index row = 0; row < logs.rows; ++row) {
    const float* from = logs.values + row * logs.stride;
    T* features = to + row * logs.stride;
    auto highest = hn::Add(LoadFloats(from), LoadFloats(in.maxima));
    for (Index c = 0; c < logs.stride; c += lanes) {
      highest = Greater(highest, hn::Add(LoadFloats(from + c), LoadFloats(in.maxima + c)));
    }
    const auto top = hn::MaxOfLanes(d, highest);
    auto sum = hn::Zero(d);
    for (Index c = 0; c < logs.stride; c += lanes) {
      const auto raised = hn::Add(LoadFloats(from + c), LoadFloats(in.maxima + c));
      const auto power = WeightFor(to, hn::Sub(raised, top));
      StoreFloats(power, features + c);
      sum = hn::MulAdd(power, LoadFloats(in.counts + c), sum);
    }
    in.denominators[row] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

void ExponentiateQueriesTo(const FeatureBlock& block, const QueryExponents& in) {
  if (block.narrow != nullptr) {
    ExponentiateQueries(block.wide, block.narrow, in);
  } else {
    ExponentiateQueries(block.wide, block.wide.values, in);
  }
}

template <class Feature, class T>
void FinishGradients(const FeatureRows& values, const Feature* features, T* to,
                     const GradientFactors& in) {
  const Float d;
  const Index lanes = LanesOf(d);
  for (Index row = 0; row < values.rows; ++row) {
    const Index begin = row * values.stride;
    const auto shift = hn::Set(d, in.shifts[row]);
    auto total = hn::Zero(d);
    for (Index c = 0; c < values.stride; c += lanes) {
      const auto gradient =
          hn::MulAdd(shift, LoadFloats(in.added + c), LoadFloats(values.values + begin + c));
      const auto finished = hn::Mul(gradient, LoadFloats(features + begin + c));
      StoreFloats(finished, to + begin + c);
      total = hn::Add(total, finished);
    }
    in.sums[row] = hn::GetLane(hn::SumOfLanes(d, total));
  }
}

void FinishGradientsTo(const FeatureBlock& block, const GradientFactors& in) {
  if (block.narrow != nullptr) {
    FinishGradients(block.wide, in.features.narrow, block.narrow, in);
  } else if (in.features.narrow != nullptr) {
    FinishGradients(block.wide, in.features.narrow, block.wide.values, in);
  } else {
    FinishGradients(block.wide, in.features.wide.values, block.wide.values, in);
  }
}

template <class T>
void AddRowsOf(const FeatureRows& block, const T* rows, const float* weights, float* sums) {
  const Float d;
  const Index lanes = LanesOf(d);
  for (Index row = 0; row < block.rows; ++row) {
    const T* at = rows + row * block.stride;
    const auto weight = hn::Set(d, weights[row]);
    for (Index c = 0; c < block.stride; c += lanes) {
      StoreFloats(hn::MulAdd(weight, LoadFloats(at + c), LoadFloats(sums + c)), sums + c);
    }
  }
}

void AddRows(const FeatureBlock& block, const float* weights, float* sums) {
  if (block.narrow != nullptr) {
    AddRowsOf(block.wide, block.narrow, weights, sums);
  } else {
    AddRowsOf(block.wide, block.wide.values, weights, sums);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {

HWY_EXPORT(RaiseMaxima);
HWY_EXPORT(ExponentiateKeysTo);
HWY_EXPORT(ExponentiateQueriesTo);
HWY_EXPORT(FinishGradientsTo);
HWY_EXPORT(AddRows);

void raise_maxima(const FeatureRows& logs, const float* shifts, float* maxima) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(RaiseMaxima)(logs, shifts, maxima);
}

void exponentiate_keys(const FeatureBlock& block, const KeyExponents& in) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(ExponentiateKeysTo)(block, in);
}

void exponentiate_queries(const FeatureBlock& block, const QueryExponents& in) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(ExponentiateQueriesTo)(block, in);
}

void finish_gradients(const FeatureBlock& block, const GradientFactors& in) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(FinishGradientsTo)(block, in);
}

void add_rows(const FeatureBlock& block, const float* weights, float* sums) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(AddRows)(block, weights, sums);
}

}  // namespace longformer::kernels
#endif
