// A device of OpenCL, its compiled programs, and memory on it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "kernels/opencl/library.h"

namespace longformer::kernels::opencl {

/// So many groups of so many work items.
struct Groups {
  std::size_t count, size;
};

/// Limits and names that a device reports.
struct DeviceFacts {
  std::string name, version, driver;
  bool is_gpu = false, is_cpu = false;
  /// The device reads the memory of the host, so buffers need no copies.
  bool shares_memory = false;
  std::size_t work_group = 0, local_memory = 0, memory = 0, largest_buffer = 0;
  /// Floats that one instruction takes.
  std::uint32_t floats = 1;
};

class Device;

/// The kernels of one build.
class Program {
 public:
  explicit Program(ProgramId program) : program_(program) {}
  /// Throws Error when the program has no such kernel.
  KernelId kernel(const char* name);
  /// The largest work group that the device runs the kernel with.
  std::size_t largest_group(const char* name, const Device& device);

 private:
  struct Kernel {
    KernelId id = nullptr;
    std::size_t largest_group = 0;
  };
  Kernel& found(const char* name);

  ProgramId program_;
  std::map<std::string, Kernel> kernels_ = {};
};

class MemoryPool;
class PassData;

/// A device. Calls of all threads take turns: whoever uses the device holds `turn`. What is asked
/// of it is done in the order of asking.
class Device {
 public:
  /// The device of this number; without one the number in LONGFORMER_OPENCL_DEVICE, else the first
  /// GPU, else the first device. It stays until the end of the process. Throws Error when there is
  /// no such device, or one that cannot run the kernels.
  static Device& get(std::optional<std::size_t> number = std::nullopt);
  /// All devices, by their numbers.
  static std::vector<DeviceFacts> every();
  ~Device();

  const DeviceFacts& facts() const { return facts_; }
  /// Memory for tensors, and what passes have laid down for their ops.
  MemoryPool& pool() { return *pool_; }
  PassData& pass_data() { return *pass_data_; }
  /// The source, compiled with the options. Programs are kept in the user's cache folder. Throws
  /// Error with the first line of the compiler's log, and the path of the log.
  Program& program(std::string_view source, const std::string& options);
  /// Throws Error when the call failed.
  void expect(Status status, const char* action) const;

  /// Groups with at least so many work items.
  Groups groups_for(Index items) const;

  DeviceId id() const { return device_; }
  ContextId context() const { return context_; }
  Queue queue() const { return queue_; }

  std::mutex turn;

 private:
  explicit Device(DeviceId id);
  ProgramId compile(std::string_view source, const std::string& options) const;
  ProgramId cached(const std::string& path, const std::string& options) const;
  void keep(ProgramId program, const std::string& path) const;
  std::string build_log(ProgramId program) const;

  DeviceId device_ = nullptr;
  ContextId context_ = nullptr;
  Queue queue_ = nullptr;
  DeviceFacts facts_;
  /// The key is the address of the source, and the options.
  std::map<std::pair<const void*, std::string>, Program> programs_;
  std::unique_ptr<MemoryPool> pool_;
  std::unique_ptr<PassData> pass_data_;
};

/// Memory of the device. With `shares_memory` it is the host's own.
class Buffer {
 public:
  /// A copy of the host's numbers, or memory for as many without contents when `host` is null.
  Buffer(Device& device, const void* host, std::size_t bytes);
  /// Memory whose contents the host gets by read().
  static Buffer result(Device& device, void* host, std::size_t bytes);
  /// A result whose contents kernels add to.
  static Buffer filled(Device& device, void* host, std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer& operator=(Buffer&&) = delete;

  /// Waits for all kernels, and brings what they wrote to the host.
  void read();
  const Memory& memory() const { return memory_; }

 private:
  Buffer(Device& device, void* host, std::size_t bytes, bool is_result);

  Device* device_;
  void* host_;
  std::size_t bytes_;
  Memory memory_ = nullptr;
};

/// An argument of a kernel: a buffer, or a value.
struct Argument {
  const void* data;
  std::size_t bytes;
};
inline Argument argument_of(const Buffer& buffer) { return {&buffer.memory(), sizeof(Memory)}; }
/// A tensor on the device (pool.h).
Argument argument_of(const Tensor& tensor);
template <typename Value>
Argument argument_of(const Value& value) {
  static_assert(std::is_trivially_copyable_v<Value>);
  return {&value, sizeof(Value)};
}

void run_with(Device& device, Program& program, const char* name, Groups groups,
              std::span<const Argument> arguments);

/// Runs a kernel.
template <typename... Values>
void run(Device& device, Program& program, const char* name, Groups groups,
         const Values&... values) {
  run_with(device, program, name, groups, std::array{argument_of(values)...});
}

}  // namespace longformer::kernels::opencl
