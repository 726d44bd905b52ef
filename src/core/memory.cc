#include "core/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

#include "core/error.h"

namespace longformer {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Where a large buffer begins within its first page. Loops over several buffers that all begin on
/// a huge page meet in the same places of the caches, which costs AdamW four fifths of its speed on
/// Zen 5; so buffers begin on different lines.
std::size_t first_line(const void* memory) {
  const std::uint64_t page = reinterpret_cast<std::uintptr_t>(memory) / kHugePage;
  return static_cast<std::size_t>((page * 0x9e3779b97f4a7c15ull) >> 58) * kAlignment;
}

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

std::shared_ptr<void> allocate_aligned(std::size_t bytes) {
  const bool large = bytes >= kHugePage;
  const std::size_t alignment = large ? kHugePage : kAlignment;
  const std::size_t shift = large ? 64 * kAlignment : 0;
  const std::size_t capacity = round_up(bytes + shift + kAlignment, alignment);
  void* memory = std::aligned_alloc(alignment, capacity);
  require(memory != nullptr, "memory: could not allocate {} bytes", bytes);
#ifdef MADV_HUGEPAGE
  // A last page that is not full would count as a whole one.
  if (large) madvise(memory, (bytes + shift) / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  const std::shared_ptr<void> owner(memory, [](void* pointer) { std::free(pointer); });
  return {owner, static_cast<std::byte*>(memory) + (large ? first_line(memory) : 0)};
}

struct MemoryPool::FreeList {
  std::multimap<std::size_t, std::shared_ptr<void>> buffers;
};

MemoryPool::MemoryPool() : free_(std::make_shared<FreeList>()) {}
MemoryPool::~MemoryPool() = default;

Tensor MemoryPool::tensor(Shape shape, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(element_count(shape)) * element_size(dtype);
  auto found = free_->buffers.lower_bound(bytes);
  // A buffer of more than twice the size is left for a request that needs it.
  const bool fits = found != free_->buffers.end() && found->first <= 2 * bytes + 4096;
  const std::size_t capacity = fits ? found->first : bytes;
  std::shared_ptr<void> buffer = fits ? std::move(found->second) : allocate_aligned(bytes);
  if (fits) free_->buffers.erase(found);
  void* data = buffer.get();
  std::weak_ptr<FreeList> home = free_;
  std::shared_ptr<void> lease(data, [buffer = std::move(buffer), home, capacity](void*) {
    if (auto list = home.lock()) list->buffers.emplace(capacity, buffer);
  });
  return Tensor(std::move(lease), data, std::move(shape), dtype);
}

Tensor MemoryPool::zeros(Shape shape, DType dtype) {
  Tensor zeros = tensor(std::move(shape), dtype);
  std::memset(zeros.raw(), 0, zeros.bytes());
  return zeros;
}

void MemoryPool::clear() { free_->buffers.clear(); }

}  // namespace longformer
