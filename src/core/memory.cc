#include "core/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "core/fork.h"

namespace longformer {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
/// Unused bytes that a large pool may hold: a few activations of a document of 4,096 tokens.
constexpr std::size_t kSlack = std::size_t{16} << 20;

/// Offset of a large buffer in its first page. Loops over several buffers that all begin on a huge
/// page meet in the same places of the caches, which costs AdamW four fifths of its speed on Zen 5;
/// so buffers begin on different lines.
std::size_t first_line(const void* memory) {
  const std::uint64_t page = reinterpret_cast<std::uintptr_t>(memory) / kHugePage;
  return static_cast<std::size_t>((page * 0x9e3779b97f4a7c15ull) >> 58) * kAlignment;
}

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Pages of their own, which go back to the system with the buffer: glibc keeps what lies between
/// others in its heap, a fifth of the memory of a training that recomputes.
std::shared_ptr<void> map_pages(std::size_t bytes) {
  constexpr std::size_t kShift = 64 * kAlignment;
  const std::size_t capacity = round_up(bytes + kShift + kAlignment, kHugePage);
  void* mapped = mmap(nullptr, capacity + kHugePage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(mapped != MAP_FAILED, "memory: could not allocate {} bytes", bytes);
  auto* pages = static_cast<std::byte*>(mapped);
  const std::size_t before = round_up(reinterpret_cast<std::uintptr_t>(mapped), kHugePage) -
                             reinterpret_cast<std::uintptr_t>(mapped);
  std::byte* begin = pages + before;
  if (before > 0) munmap(pages, before);
  munmap(begin + capacity, kHugePage - before);
#ifdef MADV_HUGEPAGE
  // A last page that is not full would count as a whole one.
  madvise(begin, (bytes + kShift) / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  const std::shared_ptr<void> owner(begin, [capacity](void* pages) { munmap(pages, capacity); });
  return {owner, begin + first_line(begin)};
}

}  // namespace

std::shared_ptr<void> allocate_aligned(std::size_t bytes) {
  if (bytes >= kHugePage) return map_pages(bytes);
  void* memory = std::aligned_alloc(kAlignment, round_up(bytes + kAlignment, kAlignment));
  require(memory != nullptr, "memory: could not allocate {} bytes", bytes);
  return {memory, [](void* pointer) { std::free(pointer); }};
}

std::shared_ptr<void> allocate_zeroed(std::size_t bytes) {
  std::shared_ptr<void> memory = allocate_aligned(bytes);
  // New pages are zeros. To fill them again took a seventh of the time of a Routing Transformer
  // that reads 65,536 characters.
  if (bytes < kHugePage) std::memset(memory.get(), 0, bytes);
  return memory;
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  if (!(file >> size >> resident)) return 0;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

struct MemoryPool::Buffers {
  struct Buffer {
    std::shared_ptr<void> memory;
    std::size_t capacity = 0;
  };

  Buffer take(std::size_t bytes) {
    const ForkSafeLock lock(mutex_);
    const auto found = free_.lower_bound(bytes);
    // A much larger one is left for a request that needs it: with the double of a request a
    // training in bf16 held its sums of rows in buffers of wide rows, 7 % of its memory.
    const bool fits = found != free_.end() && found->first <= bytes + bytes / 8 + 4096;
    Buffer buffer;
    if (fits) {
      buffer = {std::move(found->second), found->first};
      free_bytes_ -= found->first;
      free_.erase(found);
    } else {
      make_room(bytes);
      buffer = {allocate_aligned(bytes), bytes};
    }
    used_bytes_ += buffer.capacity;
    most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
    return buffer;
  }

  void give_back(const Buffer& buffer) {
    const ForkSafeLock lock(mutex_);
    used_bytes_ -= buffer.capacity;
    free_bytes_ += buffer.capacity;
    free_.emplace(buffer.capacity, buffer.memory);
  }

  void shrink(std::size_t bytes) {
    const ForkSafeLock lock(mutex_);
    while (bytes > 0 && !free_.empty()) {
      auto buffer = free_.lower_bound(bytes);
      if (buffer == free_.end()) --buffer;
      bytes -= std::min(bytes, buffer->first);
      free_bytes_ -= buffer->first;
      free_.erase(buffer);
    }
  }

  std::size_t bytes() const {
    const ForkSafeLock lock(mutex_);
    return used_bytes_ + free_bytes_;
  }

 private:
  /// Unused buffers, largest first, go back to the system where all together would be much more
  /// than was ever in use. Some slack lets the layers hand the same pages on: clearing new ones
  /// took 4 % of a training step.
  void make_room(std::size_t bytes) {
    const std::size_t used = used_bytes_ + bytes;
    const std::size_t most = std::max(most_used_bytes_, used);
    const std::size_t slack = std::min(most / 4, std::max(most / 32, kSlack));
    while (!free_.empty() && used + free_bytes_ > most + slack) {
      const auto largest = std::prev(free_.end());
      free_bytes_ -= largest->first;
      free_.erase(largest);
    }
  }

  mutable std::mutex mutex_;
  std::multimap<std::size_t, std::shared_ptr<void>> free_;
  std::size_t free_bytes_ = 0, used_bytes_ = 0, most_used_bytes_ = 0;
};

MemoryPool::MemoryPool() : buffers_(std::make_shared<Buffers>()) {}
MemoryPool::~MemoryPool() = default;

Tensor MemoryPool::tensor(Shape shape, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(element_count(shape)) * element_size(dtype);
  Buffers::Buffer buffer = buffers_->take(bytes);
  void* data = buffer.memory.get();
  std::weak_ptr<Buffers> home = buffers_;
  std::shared_ptr<void> lease(data, [buffer = std::move(buffer), home](void*) {
    if (const auto buffers = home.lock()) buffers->give_back(buffer);
  });
  return Tensor(std::move(lease), data, std::move(shape), dtype);
}

std::size_t MemoryPool::bytes() const { return buffers_->bytes(); }

Tensor MemoryPool::zeros(Shape shape, DType dtype) {
  Tensor zeros = tensor(std::move(shape), dtype);
  std::memset(zeros.raw(), 0, zeros.bytes());
  return zeros;
}

void MemoryPool::clear() { shrink(std::numeric_limits<std::size_t>::max()); }

void MemoryPool::shrink(std::size_t bytes) { buffers_->shrink(bytes); }

}  // namespace longformer
