// The functions of OpenCL 1.2 that are used, declared here: building needs no headers, and the
// loader of drivers, libOpenCL, is loaded when OpenCL is asked for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace longformer::kernels::opencl {

using Status = std::int32_t;
using Flags = std::uint64_t;
using Name = std::uint32_t;

// Objects of the library, which are pointers.
using Platform = struct PlatformObject*;
using DeviceId = struct DeviceObject*;
using ContextId = struct ContextObject*;
using Queue = struct QueueObject*;
using ProgramId = struct ProgramObject*;
using KernelId = struct KernelObject*;
using Memory = struct MemoryObject*;
using Event = struct EventObject*;

inline constexpr Status kSuccess = 0, kDeviceNotFound = -1, kAllocationFailure = -4,
                        kOutOfResources = -5, kOutOfHostMemory = -6, kInvalidBufferSize = -61,
                        kPlatformNotFound = -1001;
inline constexpr Flags kReadWrite = 1, kUseHostPointer = 8;
inline constexpr Flags kCpu = 2, kGpu = 4, kEveryDevice = 0xffffffff;
inline constexpr Flags kMapRead = 1;
inline constexpr Name kBlocking = 1;

// Questions about devices.
inline constexpr Name kDeviceType = 0x1000, kMaxWorkGroupSize = 0x1004, kPreferredFloats = 0x100a,
                      kMaxAllocation = 0x1010, kGlobalMemory = 0x101f, kLocalMemoryType = 0x1022,
                      kLocalMemory = 0x1023, kIsAvailable = 0x1027, kHasCompiler = 0x1028,
                      kDeviceName = 0x102b, kDriverVersion = 0x102d, kDeviceVersion = 0x102f,
                      kUnifiedMemory = 0x1035;
// Questions about programs.
inline constexpr Name kBinarySizes = 0x1165, kBinaries = 0x1166, kBuildLog = 0x1183;

// Question about kernels.
inline constexpr Name kKernelWorkGroupSize = 0x11b0;

struct Library {
  Status (*get_platforms)(Name, Platform*, Name*) = nullptr;
  Status (*get_devices)(Platform, Flags, Name, DeviceId*, Name*) = nullptr;
  Status (*get_device_info)(DeviceId, Name, std::size_t, void*, std::size_t*) = nullptr;
  ContextId (*create_context)(const std::intptr_t*, Name, const DeviceId*,
                              void (*)(const char*, const void*, std::size_t, void*), void*,
                              Status*) = nullptr;
  Queue (*create_queue)(ContextId, DeviceId, Flags, Status*) = nullptr;
  ProgramId (*create_program)(ContextId, Name, const char**, const std::size_t*, Status*) = nullptr;
  ProgramId (*create_from_binary)(ContextId, Name, const DeviceId*, const std::size_t*,
                                  const unsigned char**, Status*, Status*) = nullptr;
  Status (*build_program)(ProgramId, Name, const DeviceId*, const char*, void (*)(ProgramId, void*),
                          void*) = nullptr;
  Status (*get_program_info)(ProgramId, Name, std::size_t, void*, std::size_t*) = nullptr;
  Status (*get_build_info)(ProgramId, DeviceId, Name, std::size_t, void*, std::size_t*) = nullptr;
  Status (*release_program)(ProgramId) = nullptr;
  KernelId (*create_kernel)(ProgramId, const char*, Status*) = nullptr;
  Status (*get_kernel_group)(KernelId, DeviceId, Name, std::size_t, void*, std::size_t*) = nullptr;
  Status (*set_argument)(KernelId, Name, std::size_t, const void*) = nullptr;
  Memory (*create_buffer)(ContextId, Flags, std::size_t, void*, Status*) = nullptr;
  Status (*release_memory)(Memory) = nullptr;
  Status (*write_buffer)(Queue, Memory, Name, std::size_t, std::size_t, const void*, Name,
                         const Event*, Event*) = nullptr;
  Status (*copy_buffer)(Queue, Memory, Memory, std::size_t, std::size_t, std::size_t, Name,
                        const Event*, Event*) = nullptr;
  Status (*read_buffer)(Queue, Memory, Name, std::size_t, std::size_t, void*, Name, const Event*,
                        Event*) = nullptr;
  void* (*map_buffer)(Queue, Memory, Name, Flags, std::size_t, std::size_t, Name, const Event*,
                      Event*, Status*) = nullptr;
  Status (*unmap)(Queue, Memory, void*, Name, const Event*, Event*) = nullptr;
  Status (*run)(Queue, KernelId, Name, const std::size_t*, const std::size_t*, const std::size_t*,
                Name, const Event*, Event*) = nullptr;
  Status (*finish)(Queue) = nullptr;
};

/// Throws Error that names the packages where there is no such library.
const Library& library();

}  // namespace longformer::kernels::opencl
