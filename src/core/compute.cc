#include "core/compute.h"

#include "core/cpu.h"
#include "core/error.h"

namespace longformer {

Compute compute_of(const std::string& name) {
  if (name == "fp32" || name == "bf16") return {.dtype = compute_dtype(name)};
  require(name == "int8", OptionName("dtype"), "expected fp32, bf16 or int8, found \"{}\"", name);
  if (!has_int8_products()) return {};
  return {.dtype = cpu_isa() >= CpuIsa::avx512_bf16 ? DType::bf16 : DType::f32, .int8 = true};
}

std::string compute_note(const std::string& name) {
  if (name != "int8" || has_int8_products()) return {};
  return fmt::format(
      "dtype int8: this CPU ({}) has no products of 8-bit whole numbers (AVX-512 VNNI), so all is "
      "computed in fp32",
      name_of(cpu_isa()));
}

}  // namespace longformer
