// A device of OpenCL, its compiled programs, and memory on it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "kernels/opencl/library.h"

namespace longformer::kernels::opencl {

/// Limits and names that a device reports.
struct DeviceFacts {
  std::string name, version, driver;
  bool is_gpu = false;
  /// The device reads the memory of the host, so buffers need no copies.
  bool shares_memory = false;
  std::size_t work_group = 0, local_memory = 0, memory = 0, largest_buffer = 0;
  /// Floats that one instruction takes.
  std::uint32_t floats = 1;
};

/// The kernels of one build.
class Program {
 public:
  explicit Program(ProgramId program) : program_(program) {}
  /// Throws Error when the program has no such kernel.
  KernelId kernel(const char* name);

 private:
  ProgramId program_;
  std::map<std::string, KernelId> kernels_ = {};
};

/// The first GPU, or the first device where there is none; LONGFORMER_OPENCL_DEVICE names another
/// by its number. Calls of all threads take turns: whoever uses the device holds `turn`.
class Device {
 public:
  /// Throws Error when there is no device, or one that cannot run the kernels.
  static Device& get();

  const DeviceFacts& facts() const { return facts_; }
  /// The source, compiled with the options. Programs are kept in the user's cache folder. Throws
  /// Error with the first line of the compiler's log, and the path of the log.
  Program& program(std::string_view source, const std::string& options);
  /// Throws Error when the call failed.
  void expect(Status status, const char* action) const;

  ContextId context() const { return context_; }
  Queue queue() const { return queue_; }

  std::mutex turn;

 private:
  Device();
  ProgramId compile(std::string_view source, const std::string& options) const;
  ProgramId cached(const std::string& path, const std::string& options) const;
  void keep(ProgramId program, const std::string& path) const;
  std::string build_log(ProgramId program) const;

  DeviceId device_ = nullptr;
  ContextId context_ = nullptr;
  Queue queue_ = nullptr;
  DeviceFacts facts_;
  std::map<std::string, Program> programs_;
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
template <typename Value>
Argument argument_of(const Value& value) {
  return {&value, sizeof(Value)};
}

/// So many groups of so many work items.
struct Groups {
  std::size_t count, size;
};
void run_with(Device& device, Program& program, const char* name, Groups groups,
              std::span<const Argument> arguments);

/// Runs a kernel.
template <typename... Values>
void run(Device& device, Program& program, const char* name, Groups groups,
         const Values&... values) {
  run_with(device, program, name, groups, std::array{argument_of(values)...});
}

}  // namespace longformer::kernels::opencl
