#include "core/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "core/error.h"

namespace longformer {
namespace {

constexpr std::array<std::pair<CpuIsa, std::string_view>, 6> kNames = {{
    {CpuIsa::portable, "portable"},
    {CpuIsa::sse4, "sse4"},
    {CpuIsa::avx2, "avx2"},
    {CpuIsa::avx512, "avx512"},
    {CpuIsa::avx512_bf16, "avx512_bf16"},
    {CpuIsa::amx_bf16, "amx_bf16"},
}};

#if defined(__x86_64__)
/// The CPU multiplies tiles of bf16, and the operating system keeps the tiles of each thread. CPUID
/// says so, since clang 14 has no name for it.
bool has_amx_bf16() {
  constexpr unsigned kOsXsave = 1u << 27, kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  constexpr unsigned kTileState = 3u << 17;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsXsave) == 0) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kAmxBf16) == 0 || (d & kAmxTile) == 0) return false;
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kTileState) == kTileState;
}
#endif

CpuIsa detected() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool avx512_bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
  if (avx512_bf16 && has_amx_bf16()) return CpuIsa::amx_bf16;
  if (avx512_bf16) return CpuIsa::avx512_bf16;
  if (avx512) return CpuIsa::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return CpuIsa::avx2;
  if (__builtin_cpu_supports("sse4.2")) return CpuIsa::sse4;
#endif
  return CpuIsa::portable;
}

CpuIsa capped() {
  const char* wanted = std::getenv("LONGFORMER_CPU_ISA");
  if (wanted == nullptr || *wanted == '\0') return detected();
  for (const auto& [isa, name] : kNames) {
    if (name == wanted) return std::min(isa, detected());
  }
  fail("LONGFORMER_CPU_ISA: expected sse4, avx2, avx512, avx512_bf16 or amx_bf16, found \"{}\"",
       wanted);
}

}  // namespace

std::string_view name_of(CpuIsa isa) { return kNames[static_cast<std::size_t>(isa)].second; }

CpuIsa cpu_isa() {
  static const CpuIsa isa = capped();
  return isa;
}

bool has_int8_products() {
#if defined(__x86_64__)
  return cpu_isa() >= CpuIsa::avx512 && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

}  // namespace longformer
