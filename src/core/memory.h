// Buffers of activations: aligned allocation and a pool that hands freed buffers out again.
#pragma once

#include <cstddef>
#include <memory>

#include "core/tensor.h"

namespace longformer {

/// Uninitialised memory aligned to 64 bytes with 64 readable bytes of slack behind it; large
/// buffers ask for huge pages. Throws Error with the size when the system has none.
std::shared_ptr<void> allocate_aligned(std::size_t bytes);

/// Keeps released buffers for the next request of a similar size, so that the layers of a forward
/// pass touch the same pages. Not thread-safe: one pool belongs to one forward pass at a time.
class MemoryPool {
 public:
  MemoryPool();
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// An uninitialised tensor; its buffer returns to the pool when the last copy of it is gone.
  Tensor tensor(Shape shape, DType dtype);

  /// The same, filled with zeros.
  Tensor zeros(Shape shape, DType dtype);

  /// Gives the unused buffers back to the system.
  void clear();

 private:
  struct FreeList;
  std::shared_ptr<FreeList> free_;
};

}  // namespace longformer
