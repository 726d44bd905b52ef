// A dense row-major array with shared storage: the value that ops pass to each other.
//
// Storage comes from a MemoryPool, from a mapped file, or from the heap; copies of a Tensor share
// it. Code above ops/ only moves tensors around; raw element access is for core, kernels and ops.
#pragma once

#include <cassert>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace longformer {

using Shape = std::vector<Index>;

/// "[4096, 768]", for messages.
std::string to_string(const Shape& shape);

/// Product of the dimensions; 1 for a scalar.
Index element_count(const Shape& shape);

struct Gradient;

/// Memory that lies elsewhere than that of the host: on a device, whose ops find their own kind of
/// memory in it.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  /// Waits for all that was asked of the device before, and copies bytes to the host.
  virtual void read(std::size_t begin, std::size_t bytes, void* to) const = 0;
};

class Tensor {
 public:
  Tensor() = default;

  /// A tensor on the heap, uninitialised, aligned to 64 bytes.
  Tensor(Shape shape, DType dtype);

  /// A tensor over storage that `owner` keeps alive: a mapped file or a pooled buffer.
  Tensor(std::shared_ptr<void> owner, void* data, Shape shape, DType dtype)
      : owner_(std::move(owner)), data_(data), shape_(std::move(shape)), dtype_(dtype) {}

  /// A tensor in the memory of a device, from byte `begin` on. Its elements come to the host by
  /// to_floats() and copy_to() alone.
  Tensor(const std::shared_ptr<DeviceMemory>& memory, std::size_t begin, Shape shape, DType dtype)
      : owner_(memory),
        device_(memory.get()),
        begin_(begin),
        shape_(std::move(shape)),
        dtype_(dtype) {}

  static Tensor zeros(Shape shape, DType dtype);
  /// A float tensor that holds a copy of the values.
  static Tensor from(std::span<const float> values, Shape shape);

  bool empty() const { return data_ == nullptr && device_ == nullptr; }
  bool is_on_device() const { return device_ != nullptr; }
  /// Null for a tensor of the host.
  DeviceMemory* device_memory() const { return device_; }
  /// The byte of it where the elements begin.
  std::size_t device_begin() const { return begin_; }
  /// Whether nobody else holds the storage, so that writing to it changes no other tensor.
  bool is_sole_owner() const { return owner_.use_count() == 1; }
  /// Whether both are the same elements in the same storage.
  bool is_same_as(const Tensor& other) const {
    return data_ == other.data_ && device_ == other.device_ && begin_ == other.begin_ &&
           shape_ == other.shape_ && dtype_ == other.dtype_;
  }
  /// Whether the elements of both have the same bits.
  bool equals(const Tensor& other) const;
  const Shape& shape() const { return shape_; }
  Index dimension(std::size_t axis) const { return shape_[axis]; }
  /// Size of the first dimension, and the number of elements of one row of it.
  Index rows() const { return shape_.empty() ? 1 : shape_[0]; }
  Index columns() const { return rows() == 0 ? 0 : size() / rows(); }
  Index size() const { return element_count(shape_); }
  std::size_t bytes() const { return static_cast<std::size_t>(size()) * element_size(dtype_); }
  DType dtype() const { return dtype_; }

  /// These throw Error for a tensor on a device.
  template <typename T>
  T* data() {
    assert(sizeof(T) == element_size(dtype_));
    return static_cast<T*>(raw());
  }
  template <typename T>
  const T* data() const {
    assert(sizeof(T) == element_size(dtype_));
    return static_cast<const T*>(raw());
  }
  void* raw() {
    if (device_ != nullptr) refuse_host();
    return data_;
  }
  const void* raw() const {
    if (device_ != nullptr) refuse_host();
    return data_;
  }

  /// Gradient of this value (core/tape.h); null when none is wanted. Copies of a
  /// tensor share it; views and conversions have none.
  const std::shared_ptr<Gradient>& gradient() const { return gradient_; }
  void set_gradient(std::shared_ptr<Gradient> gradient) { gradient_ = std::move(gradient); }

  /// A view of `count` rows from `begin` on; shares the storage.
  Tensor slice_rows(Index begin, Index count) const;
  /// The same elements under another shape of equal size.
  Tensor reshaped(Shape shape) const;

  /// Copies the elements out as floats (f64, f32, f16, bf16 tensors).
  std::vector<float> to_floats() const;
  /// Copies the elements out as floats into `out`, which must have size() elements.
  void copy_to(std::span<float> out) const;
  /// The tensor converted to another floating dtype; itself when it has it already.
  Tensor to(DType dtype) const;
  /// Writes the elements of a fp32 tensor, rounded to bf16, to a tensor of the same shape, on all
  /// free threads.
  void round_to(Tensor& narrow) const;
  /// A copy of the elements as fp32, on the heap.
  Tensor copied() const;

 private:
  [[noreturn]] static void refuse_host();

  std::shared_ptr<void> owner_;
  void* data_ = nullptr;
  /// Instead of data_.
  DeviceMemory* device_ = nullptr;
  std::size_t begin_ = 0;
  Shape shape_;
  DType dtype_ = DType::f32;
  std::shared_ptr<Gradient> gradient_;
};

}  // namespace longformer
