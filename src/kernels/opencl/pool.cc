#include "kernels/opencl/pool.h"

#include <algorithm>

#include "core/error.h"

namespace longformer::kernels::opencl {
namespace {

constexpr std::size_t kUnit = 4096;

}  // namespace

void Block::read(std::size_t begin, std::size_t bytes, void* to) const {
  const std::scoped_lock turn(device_->turn);
  device_->expect(library().read_buffer(device_->queue(), memory_, kBlocking, begin, bytes, to, 0,
                                        nullptr, nullptr),
                  "copy from the device");
}

struct MemoryPool::Blocks {
  explicit Blocks(Device& its_device) : device(its_device) {}
  ~Blocks() {
    for (const Block& block : unused) library().release_memory(block.memory());
  }

  void give_back(const Block& block) {
    const std::scoped_lock lock(mutex);
    unused.push_back(block);
  }

  /// The smallest unused block that is large enough and not far too large; null for none.
  Memory reused(std::size_t bytes, std::size_t* size) {
    auto best = unused.end();
    for (auto it = unused.begin(); it != unused.end(); ++it) {
      if (it->bytes() < bytes || it->bytes() / 2 > bytes + kUnit) continue;
      if (best == unused.end() || it->bytes() < best->bytes()) best = it;
    }
    if (best == unused.end()) return nullptr;
    const Memory memory = best->memory();
    *size = best->bytes();
    unused.erase(best);
    return memory;
  }

  void release_unused() {
    for (const Block& block : unused) {
      library().release_memory(block.memory());
      all -= block.bytes();
    }
    unused.clear();
  }

  Memory allocated(std::size_t bytes) {
    const DeviceFacts& facts = device.facts();
    require(bytes <= facts.largest_buffer,
            "opencl: {}: out of memory: expected at most {} MiB in one array, found {}", facts.name,
            facts.largest_buffer >> 20, bytes >> 20);
    if (all + bytes > facts.memory) release_unused();
    require(all + bytes <= facts.memory,
            "opencl: {}: out of memory: expected at most {} MiB, found {}", facts.name,
            facts.memory >> 20, (all + bytes) >> 20);
    Status status = kSuccess;
    Memory memory = library().create_buffer(device.context(), kReadWrite, bytes, nullptr, &status);
    if (status != kSuccess && !unused.empty()) {
      release_unused();
      memory = library().create_buffer(device.context(), kReadWrite, bytes, nullptr, &status);
    }
    device.expect(status, "allocate memory");
    all += bytes;
    ++allocations;
    return memory;
  }

  Device& device;
  std::mutex mutex;
  std::vector<Block> unused;
  std::size_t all = 0, allocations = 0;
};

MemoryPool::MemoryPool(Device& device) : blocks_(std::make_shared<Blocks>(device)) {}

MemoryPool::~MemoryPool() = default;

std::shared_ptr<Block> MemoryPool::take(std::size_t bytes) {
  const std::scoped_lock lock(blocks_->mutex);
  std::size_t size = std::max((bytes + kUnit - 1) / kUnit, std::size_t{1}) * kUnit;
  Memory memory = blocks_->reused(size, &size);
  if (memory == nullptr) memory = blocks_->allocated(size);
  return {new Block(blocks_->device, memory, size), [blocks = blocks_](Block* block) {
            blocks->give_back(*block);
            delete block;
          }};
}

Tensor MemoryPool::tensor(const Shape& shape, DType dtype) {
  const auto bytes = static_cast<std::size_t>(element_count(shape)) * element_size(dtype);
  return Tensor(std::shared_ptr<DeviceMemory>(take(bytes)), 0, shape, dtype);
}

Tensor MemoryPool::uploaded(const void* from, const Shape& shape, DType dtype) {
  Tensor to = tensor(shape, dtype);
  if (to.bytes() == 0) return to;
  const Device& device = blocks_->device;
  device.expect(library().write_buffer(device.queue(), block_of(to).memory(), kBlocking, 0,
                                       to.bytes(), from, 0, nullptr, nullptr),
                "copy to the device");
  return to;
}

std::size_t MemoryPool::bytes() const {
  const std::scoped_lock lock(blocks_->mutex);
  return blocks_->all;
}

std::size_t MemoryPool::allocations() const {
  const std::scoped_lock lock(blocks_->mutex);
  return blocks_->allocations;
}

Block& any_block_of(const Tensor& tensor) {
  require(tensor.is_on_device(), "opencl: expected a tensor on a device, found one of the host");
  return static_cast<Block&>(*tensor.device_memory());
}

Block& block_of(const Tensor& tensor) {
  Block& block = any_block_of(tensor);
  require(tensor.device_begin() == 0, "opencl: expected a whole tensor, found a part of one");
  return block;
}

Argument argument_of(const Tensor& tensor) { return {&block_of(tensor).memory(), sizeof(Memory)}; }

namespace {

void copy_bytes(const Tensor& from, Tensor& to, std::size_t begin) {
  if (from.bytes() == 0) return;
  const Block& source = any_block_of(from);
  const Device& device = source.device();
  device.expect(
      library().copy_buffer(device.queue(), source.memory(), block_of(to).memory(),
                            from.device_begin(), begin, from.bytes(), 0, nullptr, nullptr),
      "copy on the device");
}

}  // namespace

void copy_elements(const Tensor& from, Tensor& to, Index begin) {
  copy_bytes(from, to, static_cast<std::size_t>(begin) * element_size(to.dtype()));
}

Tensor whole(const Tensor& tensor) {
  if (tensor.device_begin() == 0) return tensor;
  Tensor copy = device_of(tensor).pool().tensor(tensor.shape(), tensor.dtype());
  copy_bytes(tensor, copy, 0);
  return copy;
}

}  // namespace longformer::kernels::opencl
