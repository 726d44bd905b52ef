// A libOpenCL with the fault that FAKE_OPENCL names: no-platform, no-device, no-local-memory,
// compile, memory, small (a device with 32 KiB).
// tests/apps/cli/cli_opencl_test.py runs the program with it.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

constexpr std::string_view kLog =
    "attention.cl:1: warning: a remark\nattention.cl:7: error: no such word\nattention.cl:9: "
    "more\n";

bool fails(std::string_view fault) {
  const char* named = std::getenv("FAKE_OPENCL");
  return named != nullptr && named == fault;
}

/// Something that a pointer of the library may point to.
int object;

std::int32_t answer(const void* value, std::size_t bytes, std::size_t room, void* to,
                    std::size_t* size) {
  if (size != nullptr) *size = bytes;
  if (to != nullptr && room >= bytes) std::memcpy(to, value, bytes);
  return 0;
}

template <typename Pointer>
std::int32_t one(Pointer* to, std::uint32_t* count) {
  if (count != nullptr) *count = 1;
  if (to != nullptr) *to = &object;
  return 0;
}

void* made(std::int32_t* status, std::int32_t value = 0) {
  if (status != nullptr) *status = value;
  return value == 0 ? &object : nullptr;
}

}  // namespace

extern "C" {

std::int32_t clGetPlatformIDs(std::uint32_t, void** platforms, std::uint32_t* count) {
  if (!fails("no-platform")) return one(platforms, count);
  if (count != nullptr) *count = 0;
  return -1001;
}

std::int32_t clGetDeviceIDs(void*, std::uint64_t, std::uint32_t, void** devices,
                            std::uint32_t* count) {
  if (fails("no-device")) return -1;
  return one(devices, count);
}

std::int32_t clGetDeviceInfo(void*, std::uint32_t question, std::size_t room, void* to,
                             std::size_t* size) {
  constexpr std::string_view kName = "fake device";
  const std::uint64_t memory = std::uint64_t{1} << (fails("small") ? 15 : 32);
  const std::uint64_t local = 32768;
  const std::uint64_t type = 4;
  const std::size_t group = 256;
  std::uint32_t number = 1;
  switch (question) {
    case 0x1000:
      return answer(&type, sizeof(type), room, to, size);
    case 0x1004:
      return answer(&group, sizeof(group), room, to, size);
    case 0x1010:
    case 0x101f:
      return answer(&memory, sizeof(memory), room, to, size);
    case 0x1022:
      number = fails("no-local-memory") ? 0 : 1;
      return answer(&number, sizeof(number), room, to, size);
    case 0x1023:
      return answer(&local, sizeof(local), room, to, size);
    case 0x102b:
    case 0x102d:
    case 0x102f:
      return answer(kName.data(), kName.size() + 1, room, to, size);
    case 0x1035:
      number = 0;
      return answer(&number, sizeof(number), room, to, size);
    default:
      return answer(&number, sizeof(number), room, to, size);
  }
}

void* clCreateContext(const void*, std::uint32_t, const void*, void*, void*, std::int32_t* status) {
  return made(status);
}

void* clCreateCommandQueue(void*, void*, std::uint64_t, std::int32_t* status) {
  return made(status);
}

void* clCreateProgramWithSource(void*, std::uint32_t, const char**, const std::size_t*,
                                std::int32_t* status) {
  return made(status);
}

void* clCreateProgramWithBinary(void*, std::uint32_t, const void*, const std::size_t*,
                                const unsigned char**, std::int32_t*, std::int32_t* status) {
  return made(status, -42);
}

std::int32_t clBuildProgram(void*, std::uint32_t, const void*, const char*, void*, void*) {
  return fails("compile") ? -11 : 0;
}

std::int32_t clGetProgramInfo(void*, std::uint32_t, std::size_t, void*, std::size_t*) { return -1; }

std::int32_t clGetProgramBuildInfo(void*, void*, std::uint32_t, std::size_t room, void* to,
                                   std::size_t* size) {
  return answer(kLog.data(), kLog.size() + 1, room, to, size);
}

std::int32_t clReleaseProgram(void*) { return 0; }

void* clCreateKernel(void*, const char*, std::int32_t* status) { return made(status); }

std::int32_t clGetKernelWorkGroupInfo(void*, void*, std::uint32_t, std::size_t room, void* to,
                                      std::size_t* size) {
  const std::size_t most = 4096;
  return answer(&most, sizeof(most), room, to, size);
}

std::int32_t clSetKernelArg(void*, std::uint32_t, std::size_t, const void*) { return 0; }

void* clCreateBuffer(void*, std::uint64_t, std::size_t, void*, std::int32_t* status) {
  return made(status, fails("memory") ? -4 : 0);
}

std::int32_t clReleaseMemObject(void*) { return 0; }

std::int32_t clEnqueueWriteBuffer(void*, void*, std::uint32_t, std::size_t, std::size_t,
                                  const void*, std::uint32_t, const void*, void*) {
  return 0;
}

std::int32_t clEnqueueCopyBuffer(void*, void*, void*, std::size_t, std::size_t, std::size_t,
                                 std::uint32_t, const void*, void*) {
  return 0;
}

std::int32_t clEnqueueReadBuffer(void*, void*, std::uint32_t, std::size_t, std::size_t, void*,
                                 std::uint32_t, const void*, void*) {
  return 0;
}

void* clEnqueueMapBuffer(void*, void*, std::uint32_t, std::uint64_t, std::size_t, std::size_t,
                         std::uint32_t, const void*, void*, std::int32_t* status) {
  return made(status);
}

std::int32_t clEnqueueUnmapMemObject(void*, void*, void*, std::uint32_t, const void*, void*) {
  return 0;
}

std::int32_t clEnqueueNDRangeKernel(void*, void*, std::uint32_t, const std::size_t*,
                                    const std::size_t*, const std::size_t*, std::uint32_t,
                                    const void*, void*) {
  return 0;
}

std::int32_t clFinish(void*) { return 0; }

}  // extern "C"
