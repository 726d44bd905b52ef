// Tensors in the memory of a device.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "core/tensor.h"
#include "kernels/opencl/device.h"

namespace longformer::kernels::opencl {

/// Memory of a device that tensors lie in.
class Block final : public DeviceMemory {
 public:
  Block(Device& device, Memory memory, std::size_t bytes)
      : device_(&device), memory_(memory), bytes_(bytes) {}

  Device& device() const { return *device_; }
  const Memory& memory() const { return memory_; }
  std::size_t bytes() const { return bytes_; }
  /// Takes the turn of the device.
  void read(std::size_t begin, std::size_t bytes, void* to) const override;

 private:
  Device* device_;
  Memory memory_;
  std::size_t bytes_;
};

/// Keeps the memory of tensors that are gone for the next ones of a similar size: passes of one
/// shape allocate nothing after the first. Tensors may end on any thread.
class MemoryPool {
 public:
  explicit MemoryPool(Device& device);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// A tensor without contents. Throws Error with both numbers when the device has no room for it.
  Tensor tensor(const Shape& shape, DType dtype = DType::f32);
  /// Copies of the host's numbers; whoever asks has the turn of the device.
  Tensor uploaded(const void* from, const Shape& shape, DType dtype);
  /// Numbers of 32 bits, or pairs or fours of them, as a tensor of those.
  template <typename Value>
  Tensor uploaded(const std::vector<Value>& values) {
    static_assert(sizeof(Value) % 4 == 0);
    return uploaded(values.data(), {static_cast<Index>(values.size() * sizeof(Value) / 4)},
                    DType::i32);
  }

  /// Size of all memory of tensors, in use or not.
  std::size_t bytes() const;
  /// How often the device was asked for memory so far.
  std::size_t allocations() const;

 private:
  struct Blocks;
  std::shared_ptr<Block> take(std::size_t bytes);
  std::shared_ptr<Blocks> blocks_;
};

/// The memory of a tensor, which lies on a device from the beginning of its memory on.
Block& block_of(const Tensor& tensor);
/// Memory of a tensor that may be a part of another.
Block& any_block_of(const Tensor& tensor);
inline Device& device_of(const Tensor& tensor) { return any_block_of(tensor).device(); }

/// Copies all of `from` to `to` from element `begin` on, both of 32 bits. Whoever asks has the turn
/// of the device.
void copy_elements(const Tensor& from, Tensor& to, Index begin);

/// The tensor itself, or a copy that begins where its memory does. Whoever asks has the turn.
Tensor whole(const Tensor& tensor);

}  // namespace longformer::kernels::opencl
