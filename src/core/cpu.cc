#include "core/cpu.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "core/error.h"

namespace longformer {
namespace {

constexpr std::array<std::pair<CpuIsa, std::string_view>, 5> kNames = {{
    {CpuIsa::portable, "portable"},
    {CpuIsa::sse4, "sse4"},
    {CpuIsa::avx2, "avx2"},
    {CpuIsa::avx512, "avx512"},
    {CpuIsa::avx512_bf16, "avx512_bf16"},
}};

CpuIsa detected() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) return CpuIsa::avx512_bf16;
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
  fail("LONGFORMER_CPU_ISA: expected sse4, avx2, avx512 or avx512_bf16, found \"{}\"", wanted);
}

}  // namespace

std::string_view name_of(CpuIsa isa) { return kNames[static_cast<std::size_t>(isa)].second; }

CpuIsa cpu_isa() {
  static const CpuIsa isa = capped();
  return isa;
}

}  // namespace longformer
