// Element types of tensors and files, and the two 16-bit float conversions that storage needs.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace longformer {

using Index = std::int64_t;

/// An Index as the subscript of a standard container.
inline std::size_t at(Index index) { return static_cast<std::size_t>(index); }

enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

/// Bytes of one element.
std::size_t element_size(DType dtype);

/// fp64, fp32, fp16 or bf16.
bool is_floating(DType dtype);

/// "fp32", "bf16", …: the names that options and messages use.
std::string_view name_of(DType dtype);

/// Parses "fp32" or "bf16", the types that a model computes in. Throws Error for anything else.
DType compute_dtype(const std::string& name);

/// Storage type of a bfloat16 number: the upper half of a float.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// Rounds to nearest even; NaN stays NaN.
  explicit BFloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(is_nan ? (word >> 16) | 0x40u
                                             : (word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// IEEE half precision to float, exact.
float half_to_float(std::uint16_t half);

/// Float to IEEE half precision, to nearest even; beyond its range infinity, NaN stays NaN.
std::uint16_t float_to_half(float value);

}  // namespace longformer
