// softmax_weight of a vector, for files that are compiled once per instruction set.
#if defined(LONGFORMER_KERNELS_SIMD_SOFTMAX_WEIGHT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGFORMER_KERNELS_SIMD_SOFTMAX_WEIGHT_INL_H_
#undef LONGFORMER_KERNELS_SIMD_SOFTMAX_WEIGHT_INL_H_
#else
#define LONGFORMER_KERNELS_SIMD_SOFTMAX_WEIGHT_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/softmax_weight.h"

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// e^x for x ≤ 0, 0 below kNegligibleLogit; a NaN stays.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SoftmaxWeight(D d, V x) {
  const auto lowest = hn::Set(d, kNegligibleLogit);
  const auto power = hn::IfThenElseZero(hn::Ge(x, lowest), hn::Exp(d, hn::Max(x, lowest)));
  return hn::IfThenElse(hn::IsNaN(x), x, power);
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#endif
