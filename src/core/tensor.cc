#include "core/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/memory.h"
#include "core/threads.h"

namespace longformer {
namespace {

template <typename Source, typename Convert>
void convert_all(const Tensor& from, std::span<float> out, Convert convert) {
  const auto* source = static_cast<const Source*>(from.raw());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = convert(source[i]);
}

/// BFloat16(x) of each, in the form that g++ 12 turns into vectors: a training step rounds some
/// hundred million numbers.
void round_all(const float* __restrict from, BFloat16* __restrict to, Index count) {
  for (Index i = 0; i < count; ++i) {
    const auto word = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
    const bool is_nan = static_cast<std::int32_t>(word & 0x7fffffffu) > 0x7f800000;
    to[i].bits = static_cast<std::uint16_t>(is_nan ? (word >> 16) | 0x40u : rounded);
  }
}

}  // namespace

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Index element_count(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>());
}

Tensor::Tensor(Shape shape, DType dtype) : shape_(std::move(shape)), dtype_(dtype) {
  owner_ = allocate_aligned(bytes());
  data_ = owner_.get();
}

Tensor Tensor::zeros(Shape shape, DType dtype) {
  const auto count = static_cast<std::size_t>(element_count(shape));
  const std::shared_ptr<void> memory = allocate_zeroed(count * element_size(dtype));
  return {memory, memory.get(), std::move(shape), dtype};
}

Tensor Tensor::from(std::span<const float> values, Shape shape) {
  Tensor tensor(std::move(shape), DType::f32);
  require(static_cast<Index>(values.size()) == tensor.size(),
          "tensor: expected {} values, found {}", tensor.size(), values.size());
  if (!values.empty()) std::memcpy(tensor.raw(), values.data(), values.size_bytes());
  return tensor;
}

Tensor Tensor::slice_rows(Index begin, Index count) const {
  assert(begin >= 0 && count >= 0 && begin + count <= rows());
  Shape shape = shape_;
  shape[0] = count;
  const std::size_t bytes = static_cast<std::size_t>(begin * columns()) * element_size(dtype_);
  Tensor rows = reshaped(shape_);
  rows.shape_ = std::move(shape);
  if (device_ != nullptr) rows.begin_ += bytes;
  if (data_ != nullptr) rows.data_ = static_cast<std::byte*>(data_) + bytes;
  return rows;
}

Tensor Tensor::reshaped(Shape shape) const {
  assert(element_count(shape) == size());
  Tensor same = *this;
  same.shape_ = std::move(shape);
  same.gradient_ = nullptr;
  return same;
}

void Tensor::refuse_host() {
  fail(
      "expected numbers in the memory of this machine, found them on a device: "
      "an op that has none for devices was asked for them");
}

std::vector<float> Tensor::to_floats() const {
  std::vector<float> values(static_cast<std::size_t>(size()));
  copy_to(values);
  return values;
}

void Tensor::copy_to(std::span<float> out) const {
  assert(static_cast<Index>(out.size()) == size());
  if (out.empty()) return;
  if (device_ != nullptr) {
    assert(dtype_ == DType::f32);
    device_->read(begin_, out.size_bytes(), out.data());
    return;
  }
  switch (dtype_) {
    case DType::f32:
      std::memcpy(out.data(), data_, out.size_bytes());
      return;
    case DType::bf16:
      convert_all<BFloat16>(*this, out, [](BFloat16 x) { return static_cast<float>(x); });
      return;
    case DType::f16:
      convert_all<std::uint16_t>(*this, out, half_to_float);
      return;
    case DType::f64:
      convert_all<double>(*this, out, [](double x) { return static_cast<float>(x); });
      return;
    default:
      fail("tensor: expected a floating-point dtype, found {}", name_of(dtype_));
  }
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor wide = *this;
  if (dtype_ != DType::f32) {
    wide = Tensor(shape_, DType::f32);
    copy_to({wide.data<float>(), static_cast<std::size_t>(size())});
  }
  if (dtype == DType::f32) return wide;
  require(dtype == DType::bf16 || dtype == DType::f16, "tensor: cannot convert {} to {}",
          name_of(dtype_), name_of(dtype));
  Tensor narrow(shape_, dtype);
  const float* source = wide.data<float>();
  if (dtype == DType::bf16) {
    wide.round_to(narrow);
    return narrow;
  }
  auto* target = narrow.data<std::uint16_t>();
  for (Index i = 0; i < size(); ++i) {
    target[i] = float_to_half(source[i]);
    const bool fits = (target[i] & 0x7fffu) != 0x7c00u || std::isinf(source[i]);
    require(fits, "expected numbers below 65520, the range of fp16, found {}", source[i]);
  }
  return narrow;
}

void Tensor::round_to(Tensor& narrow) const {
  assert(dtype_ == DType::f32 && narrow.dtype_ == DType::bf16 && narrow.shape_ == shape_);
  constexpr Index kPiece = Index{1} << 16;
  parallel_for(free_threads(), (size() + kPiece - 1) / kPiece, [&](Index piece) {
    const Index first = piece * kPiece;
    round_all(data<float>() + first, narrow.data<BFloat16>() + first,
              std::min(kPiece, size() - first));
  });
}

bool Tensor::equals(const Tensor& other) const {
  return shape_ == other.shape_ && dtype_ == other.dtype_ &&
         std::memcmp(data_, other.data_, bytes()) == 0;
}

Tensor Tensor::copied() const {
  Tensor copy(shape_, DType::f32);
  copy_to({copy.data<float>(), static_cast<std::size_t>(copy.size())});
  return copy;
}

}  // namespace longformer
