// The instruction set that kernels may use.
#pragma once

#include <string_view>

namespace longformer {

/// The levels in increasing order: each includes the ones before it. `portable` is every other CPU.
enum class CpuIsa { portable, sse4, avx2, avx512, avx512_bf16, amx_bf16 };

std::string_view name_of(CpuIsa isa);

/// The level of this CPU, capped by the environment variable LONGFORMER_CPU_ISA
/// (sse4, avx2, avx512, avx512_bf16, amx_bf16). Read once. Throws Error for another value.
CpuIsa cpu_isa();

/// Whether the CPU multiplies vectors of 8-bit whole numbers (AVX-512 VNNI), from level avx512 on.
bool has_int8_products();

}  // namespace longformer
