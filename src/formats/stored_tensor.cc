#include "formats/stored_tensor.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace longformer::formats {
namespace {

bool is_empty(const Shape& shape) {
  return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  // The other dimensions may be so large that their product overflows.
  if (is_empty(shape)) return strides;
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

}  // namespace

StoredTensor::StoredTensor(std::shared_ptr<MappedFile> file, const std::byte* data, Shape shape,
                           DType dtype)
    : file_(std::move(file)),
      data_(data),
      shape_(std::move(shape)),
      strides_(row_major_strides(shape_)),
      dtype_(dtype) {}

StoredTensor::StoredTensor(std::shared_ptr<MappedFile> file, const std::byte* data, Shape shape,
                           DType dtype, Shape strides)
    : file_(std::move(file)),
      data_(data),
      shape_(std::move(shape)),
      strides_(std::move(strides)),
      dtype_(dtype) {}

bool StoredTensor::is_contiguous() const {
  if (is_empty(shape_)) return true;
  const Shape plain = row_major_strides(shape_);
  for (std::size_t i = 0; i < shape_.size(); ++i) {
    if (shape_[i] != 1 && strides_[i] != plain[i]) return false;
  }
  return true;
}

void StoredTensor::gather(std::byte* target, Index count) const {
  const std::size_t size = element_size(dtype_);
  if (is_contiguous()) {
    if (count > 0) std::memcpy(target, data_, static_cast<std::size_t>(count) * size);
    return;
  }
  Shape place(shape_.size(), 0);
  Index offset = 0;
  for (Index i = 0; i < count; ++i) {
    std::memcpy(target, data_ + static_cast<std::size_t>(offset) * size, size);
    target += size;
    for (std::size_t axis = shape_.size(); axis-- > 0;) {
      offset += strides_[axis];
      if (++place[axis] < shape_[axis]) break;
      offset -= strides_[axis] * shape_[axis];
      place[axis] = 0;
    }
  }
}

Tensor StoredTensor::load() const {
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(data_) % element_size(dtype_) == 0;
  if (is_aligned && is_contiguous()) {
    return Tensor(file_, const_cast<std::byte*>(data_), shape_, dtype_);
  }
  Tensor copy(shape_, dtype_);
  gather(static_cast<std::byte*>(copy.raw()), copy.size());
  return copy;
}

std::vector<std::byte> StoredTensor::first(std::size_t count) const {
  const Index elements = std::min(static_cast<Index>(count), element_count(shape_));
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * element_size(dtype_));
  gather(bytes.data(), elements);
  return bytes;
}

}  // namespace longformer::formats
