// Loads and stores of fp32 and bf16 as vectors of floats, for files that are compiled once per
// instruction set (hence the guard that Highway's foreach_target.h asks for).
#if defined(LONGFORMER_KERNELS_SIMD_FLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGFORMER_KERNELS_SIMD_FLOAT_INL_H_
#undef LONGFORMER_KERNELS_SIMD_FLOAT_INL_H_
#else
#define LONGFORMER_KERNELS_SIMD_FLOAT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "core/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Float = hn::ScalableTag<float>;
using FloatVector = hn::Vec<Float>;
using Word = hn::RebindToUnsigned<Float>;
using HalfWord = hn::Rebind<std::uint16_t, Float>;

HWY_INLINE FloatVector LoadFloats(const float* from) { return hn::LoadU(Float(), from); }

HWY_INLINE FloatVector LoadFloats(const BFloat16* from) {
  const auto halves = hn::LoadU(HalfWord(), reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(Float(), hn::ShiftLeft<16>(hn::PromoteTo(Word(), halves)));
}

HWY_INLINE void StoreFloats(FloatVector value, float* to) { hn::StoreU(value, Float(), to); }

// Highway 1.0.3 demotes to bf16 by truncation; models need rounding to nearest even, and a NaN, of
// which rounding could make a zero.
HWY_INLINE void StoreFloats(FloatVector value, BFloat16* to) {
  const Word du;
  const auto word = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(du, 1));
  const auto raised = hn::Add(hn::Add(word, hn::Set(du, 0x7fff)), odd);
  const auto quiet = hn::Or(word, hn::Set(du, 0x400000));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(value));
  const auto rounded = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, raised));
  const hn::RebindToSigned<Word> di;
  hn::StoreU(hn::DemoteTo(HalfWord(), hn::BitCast(di, rounded)), HalfWord(),
             reinterpret_cast<std::uint16_t*>(to));
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#endif
