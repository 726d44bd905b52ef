// Ties Highway's run-time dispatch to cpu_isa().
#pragma once

// Vectors whose size is known only at run time can be kept neither in arrays nor in structs. Each
// kind of vectors costs its share of the compiler's time: SSSE3 without SSE4 is a CPU of 2006, and
// those better than AVX3, which have lower bits, add little to it here.
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | (HWY_AVX3 - 1))

namespace longformer::kernels {

/// Every function that uses HWY_DYNAMIC_DISPATCH calls this first: the first call keeps Highway
/// from choosing instruction sets above cpu_isa(), further ones cost a load.
void limit_simd_targets();

}  // namespace longformer::kernels
