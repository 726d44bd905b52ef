// Fused attention in bf16 on x86 CPUs that multiply bf16 in pairs.
#include <hwy/base.h>

#include <cstddef>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "kernels/attention/fused_tile.h"
#include "kernels/attention/product_rows.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if !defined(__clang__)
// g++ 12 warns about the registers that its own intrinsics leave undefined.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")
static_assert(sizeof(__m512) == 64);
namespace longformer::kernels::avx512_bf16 {

/// Arithmetic of one vector.
struct Fp32Vector {
  using V = __m512;

  static HWY_INLINE V Load(const float* from) { return _mm512_load_ps(from); }
  static HWY_INLINE void Store(V v, float* to) { _mm512_store_ps(to, v); }
  static HWY_INLINE V Set(float value) { return _mm512_set1_ps(value); }
  static HWY_INLINE V Broadcast(const float* from) { return _mm512_set1_ps(*from); }
  static HWY_INLINE V Add(V a, V b) { return _mm512_add_ps(a, b); }
  static HWY_INLINE V Sub(V a, V b) { return _mm512_sub_ps(a, b); }
  static HWY_INLINE V Mul(V a, V b) { return _mm512_mul_ps(a, b); }
  static HWY_INLINE V Div(V a, V b) { return _mm512_div_ps(a, b); }
  static HWY_INLINE V Min(V a, V b) { return _mm512_min_ps(a, b); }
  static HWY_INLINE V Max(V a, V b) { return _mm512_max_ps(a, b); }
  static HWY_INLINE V MulAdd(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static HWY_INLINE V InterleaveLower(V a, V b) { return _mm512_unpacklo_ps(a, b); }
  static HWY_INLINE V InterleaveUpper(V a, V b) { return _mm512_unpackhi_ps(a, b); }
  static HWY_INLINE bool AnyAbove(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }
  static HWY_INLINE V SelectAbove(V a, V b, V yes, V no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), no, yes);
  }
  static HWY_INLINE V KeepInside(V score, V row, V first, V last) {
    const __mmask16 inside =
        _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(first, row, _CMP_LE_OQ), row, last, _CMP_LT_OQ);
    return _mm512_mask_blend_ps(inside, Set(-3e38f), score);
  }
  static HWY_INLINE V ZeroOutside(V v, V row, V first, V last) {
    const __mmask16 inside =
        _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(first, row, _CMP_LE_OQ), row, last, _CMP_LT_OQ);
    return _mm512_maskz_mov_ps(inside, v);
  }
  static HWY_INLINE void StoreBf16(V v, BFloat16* to) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(v));
  }
  static HWY_INLINE V LoadUnaligned(const float* from) { return _mm512_loadu_ps(from); }
  /// 2^x, as exact as bf16 is and 0 below 2^−126: five instructions less than Exp2.
  static HWY_INLINE V NarrowPower(V x) {
    constexpr int kBelow = 0x09;  // x − ⌊x⌋, without exceptions
    const __mmask16 seen = _mm512_cmp_ps_mask(x, Set(-126), _CMP_NLT_UQ);
    const V rest = _mm512_reduce_ps(x, kBelow);
    // Minimax on [0, 1]: relative error 7.5e-5.
    V power = MulAdd(Set(7.802452e-2f), rest, Set(2.2606716e-1f));
    power = MulAdd(power, rest, Set(6.9583353e-1f));
    power = MulAdd(power, rest, Set(9.9992522e-1f));
    return _mm512_maskz_scalef_ps(seen, power, x);
  }
  static HWY_INLINE float Highest(V v) { return _mm512_reduce_max_ps(v); }
  static HWY_INLINE float Sum(V v) { return _mm512_reduce_add_ps(v); }
  static HWY_INLINE __m512i SetBits(std::uint32_t value) {
    return _mm512_set1_epi32(static_cast<int>(value));
  }
  /// v or, where the element of DropoutRow is dropped, 0.
  static HWY_INLINE V Drop(V v, const TileDropout& dropout, std::uint32_t column, Index lane) {
    __m512i x = _mm512_add_epi32(_mm512_load_si512(dropout.start + lane), SetBits(column));
    x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 16)),
                           SetBits(DropoutRow::kFirstFactor));
    x = _mm512_xor_si512(_mm512_xor_si512(x, _mm512_srli_epi32(x, 15)),
                         _mm512_load_si512(dropout.twist + lane));
    x = _mm512_mullo_epi32(x, SetBits(DropoutRow::kSecondFactor));
    const __mmask16 kept =
        _mm512_cmpge_epu32_mask(_mm512_srli_epi32(x, 1), SetBits(dropout.threshold));
    return _mm512_maskz_mul_ps(kept, v, Set(dropout.kept_factor));
  }
  static HWY_INLINE V AddExponent(V power, V shifted) {
    const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(power), exponent));
  }
};

struct Bf16 : Fp32Vector {
  static constexpr int kLanes = 16;
  static constexpr int kRows = 8;
  static constexpr int kColumns = 2;
  static constexpr int kTileLanes = kColumns * kLanes;
  static constexpr int kPack = 2;
  static constexpr int kKeyTile = 128;
  static constexpr bool kTraining = false;

  static HWY_INLINE V Product(V a, V b, V sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }
  /// Units of a low and a high bf16, rounded half away from zero: one instruction cheaper than to
  /// even, and a probability is never a tie that matters.
  static HWY_INLINE V PackPair(V low, V high) {
    const __m512i half = _mm512_set1_epi32(0x8000);
    const __m512i low_bits = _mm512_add_epi32(_mm512_castps_si512(low), half);
    const __m512i high_bits = _mm512_add_epi32(_mm512_castps_si512(high), half);
    return _mm512_castsi512_ps(
        _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(low_bits, 16), high_bits));
  }
  static HWY_INLINE V PackPairRounded(V low, V high) {
    const __m512i low_bits = Widen(_mm512_cvtneps_pbh(low));
    const __m512i high_bits = _mm512_slli_epi32(Widen(_mm512_cvtneps_pbh(high)), 16);
    return _mm512_castsi512_ps(_mm512_or_epi32(low_bits, high_bits));
  }
  static HWY_INLINE __m512i Widen(__m256bh bits) { return _mm512_cvtepu16_epi32((__m256i)bits); }
  /// Stores as bf16, in half as many units.
  static HWY_INLINE void StoreNarrow(V v, float* to) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(v));
  }
  /// sum + low + high
  static HWY_INLINE V AddPair(V sum, V pair) {
    return Product(pair, _mm512_castsi512_ps(_mm512_set1_epi32(0x3f803f80)), sum);
  }
};

#include "kernels/attention/backward_tile_inl.h"
#include "kernels/attention/product_rows_inl.h"

}  // namespace longformer::kernels::avx512_bf16
HWY_POP_ATTRIBUTES

namespace longformer::kernels {

TileKernels bf16_tile_kernels() { return avx512_bf16::AllKernelsOf<avx512_bf16::Bf16>(); }
RowKernels bf16_row_kernels() { return avx512_bf16::RowKernelsOf<avx512_bf16::Bf16>(); }

}  // namespace longformer::kernels

#else

namespace longformer::kernels {

TileKernels bf16_tile_kernels() { fail("bf16 instructions: expected an x86 CPU with AVX512_BF16"); }
RowKernels bf16_row_kernels() { fail("bf16 instructions: expected an x86 CPU with AVX512_BF16"); }

}  // namespace longformer::kernels

#endif
