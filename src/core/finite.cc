#include "core/finite.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace longformer {
namespace {

/// Elements are counted in pieces of this many.
constexpr Index kPiece = 1 << 16;

template <typename Bits>
Bits bits_at(const std::byte* begin, Index i) {
  Bits bits;
  std::memcpy(&bits, begin + static_cast<std::size_t>(i) * sizeof(Bits), sizeof(Bits));
  return bits;
}

/// These are the numbers whose exponent has all bits set. Nearly always there are
/// none, so a loop that only looks comes first: it runs at the rate of the memory.
template <typename Bits>
Index count_full_exponents(const std::byte* begin, Index count, Bits exponent) {
  Bits any = 0;
#pragma omp simd reduction(| : any)
  for (Index i = 0; i < count; ++i) {
    const Bits masked = bits_at<Bits>(begin, i) & exponent;
    any |= masked == exponent ? static_cast<Bits>(-1) : Bits{0};
  }
  if (any == 0) return 0;
  Index found = 0;
  for (Index i = 0; i < count; ++i) {
    found += (bits_at<Bits>(begin, i) & exponent) == exponent ? 1 : 0;
  }
  return found;
}

Index count_piece(const std::byte* begin, Index count, DType dtype) {
  switch (dtype) {
    case DType::f64:
      return count_full_exponents<std::uint64_t>(begin, count, 0x7ff0000000000000u);
    case DType::f32:
      return count_full_exponents<std::uint32_t>(begin, count, 0x7f800000u);
    case DType::f16:
      return count_full_exponents<std::uint16_t>(begin, count, 0x7c00u);
    case DType::bf16:
      return count_full_exponents<std::uint16_t>(begin, count, 0x7f80u);
    default:
      return 0;
  }
}

}  // namespace

Index count_nonfinite(const Tensor& tensor) {
  assert(is_floating(tensor.dtype()));
  const auto* bytes = static_cast<const std::byte*>(tensor.raw());
  const Index size = tensor.size();
  Index found = 0;
  for (Index first = 0; first < size; first += kPiece) {
    found += count_piece(bytes + static_cast<std::size_t>(first) * element_size(tensor.dtype()),
                         std::min(kPiece, size - first), tensor.dtype());
  }
  return found;
}

bool all_finite(std::span<const float> values) {
  return count_piece(reinterpret_cast<const std::byte*>(values.data()),
                     static_cast<Index>(values.size()), DType::f32) == 0;
}

}  // namespace longformer
