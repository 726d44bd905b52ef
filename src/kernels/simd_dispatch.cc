#include "kernels/simd_dispatch.h"

#include <hwy/highway.h>

#include <cstdint>

#include "core/cpu.h"

namespace longformer::kernels {
namespace {

/// Highway's targets that need more than the instruction set.
std::int64_t targets_above([[maybe_unused]] CpuIsa isa) {
  std::int64_t above = 0;
#if HWY_ARCH_X86
  if (isa < CpuIsa::avx512) above |= HWY_AVX3 | HWY_AVX3_DL;
  if (isa < CpuIsa::avx2) above |= HWY_AVX2;
  if (isa < CpuIsa::sse4) above |= HWY_SSE4 | HWY_SSSE3;
#endif
  return above;
}

}  // namespace

void limit_simd_targets() {
  [[maybe_unused]] static const bool limited = [] {
    hwy::DisableTargets(targets_above(cpu_isa()));
    return true;
  }();
}

}  // namespace longformer::kernels
