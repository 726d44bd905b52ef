#include "kernels/simd_dispatch.h"

#include <hwy/highway.h>

#include <cstdint>

#include "core/cpu.h"

namespace longformer::kernels {
namespace {

/// Highway's targets that need more than the instruction set. The better one has the lower bit.
std::int64_t targets_above([[maybe_unused]] CpuIsa isa) {
#if HWY_ARCH_X86
  if (isa < CpuIsa::sse4) return (HWY_SSE4 - 1) | HWY_SSE4;
  if (isa < CpuIsa::avx2) return (HWY_AVX2 - 1) | HWY_AVX2;
  if (isa < CpuIsa::avx512) return (HWY_AVX3 - 1) | HWY_AVX3;
#endif
  return 0;
}

}  // namespace

void limit_simd_targets() {
  [[maybe_unused]] static const bool limited = [] {
    hwy::DisableTargets(targets_above(cpu_isa()));
    return true;
  }();
}

}  // namespace longformer::kernels
