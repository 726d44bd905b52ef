// Fused attention in fp32 for every instruction set that Highway knows.
#include <cstddef>
#include <utility>

#include "core/random.h"
#include "kernels/attention/fused_tile.h"
#include "kernels/attention/product_rows.h"
#include "kernels/simd_dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/fused_fp32.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_float_inl.h"

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Fp32 {
  using D = hn::ScalableTag<float>;
  using I = hn::RebindToSigned<D>;
  using U = hn::RebindToUnsigned<D>;
  using V = hn::Vec<D>;
  static constexpr int kLanes = HWY_LANES(float);
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM
  static constexpr int kRows = 8;
#else
  // Eight accumulators, so that sixteen registers do.
  static constexpr int kRows = 4;
#endif
  static constexpr int kColumns = kLanes < 4 ? 4 : 2;
  static constexpr int kTileLanes = kColumns * kLanes;
  static constexpr int kPack = 1;
  static constexpr int kKeyTile = 128;
  static constexpr bool kTraining = false;

  static HWY_INLINE V Load(const float* from) { return hn::Load(D(), from); }
  static HWY_INLINE void Store(V v, float* to) { hn::Store(v, D(), to); }
  static HWY_INLINE V Set(float value) { return hn::Set(D(), value); }
  static HWY_INLINE V Broadcast(const float* from) { return hn::Set(D(), *from); }
  static HWY_INLINE V Add(V a, V b) { return hn::Add(a, b); }
  static HWY_INLINE V Sub(V a, V b) { return hn::Sub(a, b); }
  static HWY_INLINE V Mul(V a, V b) { return hn::Mul(a, b); }
  static HWY_INLINE V Div(V a, V b) { return hn::Div(a, b); }
  static HWY_INLINE V Min(V a, V b) { return hn::Min(a, b); }
  static HWY_INLINE V Max(V a, V b) { return hn::Max(a, b); }
  static HWY_INLINE V MulAdd(V a, V b, V c) { return hn::MulAdd(a, b, c); }
  static HWY_INLINE V Product(V a, V b, V sum) { return hn::MulAdd(a, b, sum); }
#if HWY_TARGET != HWY_SCALAR
  static HWY_INLINE V InterleaveLower(V a, V b) { return hn::InterleaveLower(D(), a, b); }
  static HWY_INLINE V InterleaveUpper(V a, V b) { return hn::InterleaveUpper(D(), a, b); }
#endif
  static HWY_INLINE bool AnyAbove(V a, V b) { return !hn::AllFalse(D(), hn::Gt(a, b)); }
  /// a > b ? yes : no
  static HWY_INLINE V SelectAbove(V a, V b, V yes, V no) {
    return hn::IfThenElse(hn::Gt(a, b), yes, no);
  }
  static HWY_INLINE V KeepNaN(V x, V other) { return hn::IfThenElse(hn::IsNaN(x), x, other); }
  /// The score where first ≤ row < last, else far below every score.
  static HWY_INLINE V KeepInside(V score, V row, V first, V last) {
    const auto inside = hn::And(hn::Le(first, row), hn::Lt(row, last));
    return hn::IfThenElse(inside, score, Set(-3e38f));
  }
  static HWY_INLINE V ZeroOutside(V v, V row, V first, V last) {
    return hn::IfThenElseZero(hn::And(hn::Le(first, row), hn::Lt(row, last)), v);
  }
  /// v or, where the element of DropoutRow is dropped, 0.
  static HWY_INLINE V Drop(V v, const TileDropout& dropout, std::uint32_t column, Index lane) {
    const U u;
    auto x = hn::Add(hn::Load(u, dropout.start + lane), hn::Set(u, column));
    x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(u, DropoutRow::kFirstFactor));
    x = hn::Xor(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Load(u, dropout.twist + lane));
    x = hn::Mul(x, hn::Set(u, DropoutRow::kSecondFactor));
    const auto bits = hn::BitCast(I(), hn::ShiftRight<1>(x));
    const auto least = hn::Set(I(), static_cast<std::int32_t>(dropout.threshold));
    const auto dropped = hn::RebindMask(D(), hn::Lt(bits, least));
    return hn::IfThenZeroElse(dropped, hn::Mul(v, Set(dropout.kept_factor)));
  }
  static HWY_INLINE void StoreNarrow(V v, float* to) { Store(v, to); }
  static HWY_INLINE void StoreBf16(V v, BFloat16* to) { StoreFloats(v, to); }
  static HWY_INLINE V LoadUnaligned(const float* from) { return hn::LoadU(D(), from); }
  static HWY_INLINE float Highest(V v) { return hn::GetLane(hn::MaxOfLanes(D(), v)); }
  static HWY_INLINE float Sum(V v) { return hn::GetLane(hn::SumOfLanes(D(), v)); }
  /// power · 2^n, n in the low bits of `shifted`.
  static HWY_INLINE V AddExponent(V power, V shifted) {
    const auto exponent = hn::ShiftLeft<23>(hn::BitCast(I(), shifted));
    return hn::BitCast(D(), hn::Add(hn::BitCast(I(), power), exponent));
  }
};

#include "kernels/attention/backward_tile_inl.h"
#include "kernels/attention/product_rows_inl.h"

TileKernels Fp32Kernels() { return AllKernelsOf<Fp32>(); }
RowKernels PortableRowKernels() { return RowKernelsOf<Fp32>(); }

}  // namespace longformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {

HWY_EXPORT(Fp32Kernels);
HWY_EXPORT(PortableRowKernels);

TileKernels fp32_tile_kernels() {
  limit_simd_targets();
  return HWY_DYNAMIC_DISPATCH(Fp32Kernels)();
}

RowKernels portable_row_kernels() {
  limit_simd_targets();
  return HWY_DYNAMIC_DISPATCH(PortableRowKernels)();
}

}  // namespace longformer::kernels
#endif
