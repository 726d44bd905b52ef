// Sums over the lanes of four vectors at once, for files that are compiled once per instruction
// set.
#if defined(LONGFORMER_KERNELS_SIMD_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGFORMER_KERNELS_SIMD_SUMS_INL_H_
#undef LONGFORMER_KERNELS_SIMD_SUMS_INL_H_
#else
#define LONGFORMER_KERNELS_SIMD_SUMS_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

template <class D>
HWY_INLINE void StoreSumsOfFour(D, const hn::Vec<D>* v, float* to) {
  for (int i = 0; i < 4; ++i) to[i] = hn::GetLane(v[i]);
}

#else

/// Writes the sum of a vector's blocks of four lanes.
template <class D>
HWY_INLINE void StoreSumOfBlocks(D d, hn::Vec<D> v, float* to) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    StoreSumOfBlocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), to);
  }
}

/// The sums of lanes i and i + 2 of each block of four, those of a and b in turns.
template <class D>
HWY_INLINE hn::Vec<D> AddHalves(D d, hn::Vec<D> a, hn::Vec<D> b) {
  return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
}

/// Writes the sums over the lanes of four vectors: with 16 lanes 13 instructions, where four
/// times SumOfLanes takes 32. Each sum adds in one order, whatever its place.
template <class D>
HWY_INLINE void StoreSumsOfFour(D d, const hn::Vec<D>* v, float* to) {
  StoreSumOfBlocks(d, AddHalves(d, AddHalves(d, v[0], v[2]), AddHalves(d, v[1], v[3])), to);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#endif
