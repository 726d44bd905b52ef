// Tensors where they lie in files, read when they are asked for.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "formats/mapped_file.h"

namespace longformer::formats {

/// Dimensions that a stored tensor may have.
inline constexpr std::size_t kMaxRank = 16;

/// A tensor in a mapped file: where its first element is, its shape, and for each dimension the
/// distance from one element to the next. Whoever makes one has checked that all elements lie in
/// the file.
class StoredTensor {
 public:
  /// Elements one behind the other in row-major order.
  StoredTensor(std::shared_ptr<MappedFile> file, const std::byte* data, Shape shape, DType dtype);
  /// Strides count elements, none is negative.
  StoredTensor(std::shared_ptr<MappedFile> file, const std::byte* data, Shape shape, DType dtype,
               Shape strides);

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }

  /// A view of the file where the elements lie in row-major order and are aligned, else a copy.
  Tensor load() const;
  /// The bytes of at most `count` elements from the first on, in row-major order.
  std::vector<std::byte> first(std::size_t count) const;

 private:
  bool is_contiguous() const;
  void gather(std::byte* target, Index count) const;

  std::shared_ptr<MappedFile> file_;
  const std::byte* data_;
  Shape shape_;
  Shape strides_;
  DType dtype_;
};

/// Tensors by name.
using StoredTensors = std::map<std::string, StoredTensor>;

}  // namespace longformer::formats
