// Buffers of activations: aligned allocation and a pool that hands freed buffers out again.
#pragma once

#include <cstddef>
#include <memory>

#include "core/tensor.h"

namespace longformer {

/// Uninitialised memory aligned to 64 bytes with 64 readable bytes of slack behind it; large
/// buffers ask for huge pages. Throws Error with the size when the system has none.
std::shared_ptr<void> allocate_aligned(std::size_t bytes);
/// The same memory filled with zeros; of large buffers no page is there before it is used.
std::shared_ptr<void> allocate_zeroed(std::size_t bytes);

/// Bytes that this process has in memory now; 0 where the system does not tell.
std::size_t resident_bytes();

/// Keeps released buffers for the next request of a similar size, so that the layers of a forward
/// pass touch the same pages; but never more in all than were once in use. Any number of threads
/// may ask it for tensors, and these may end on any thread.
class MemoryPool {
 public:
  MemoryPool();
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// An uninitialised tensor; its buffer returns to the pool when the last copy of it is gone.
  Tensor tensor(Shape shape, DType dtype);

  /// A tensor filled with zeros.
  Tensor zeros(Shape shape, DType dtype);

  /// Size of all buffers, in use or not.
  std::size_t bytes() const;

  /// Gives the unused buffers back to the system.
  void clear();

  /// Gives back unused buffers until they make up so many bytes, or none is left.
  void shrink(std::size_t bytes);

 private:
  struct Buffers;
  std::shared_ptr<Buffers> buffers_;
};

}  // namespace longformer
