#include "kernels/opencl/device.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "kernels/opencl/pass_data.h"
#include "kernels/opencl/pool.h"

namespace longformer::kernels::opencl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCacheTitle = "longformer opencl 1";

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Empty where the user has no such folder.
fs::path cache_folder() {
  const std::string cache = from_environment("XDG_CACHE_HOME");
  if (!cache.empty()) return fs::path(cache) / "longformer" / "opencl";
  const std::string home = from_environment("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".cache" / "longformer" / "opencl";
}

template <typename Value>
Value fact(DeviceId device, Name question) {
  Value value{};
  library().get_device_info(device, question, sizeof(value), &value, nullptr);
  return value;
}

std::string text_fact(DeviceId device, Name question) {
  std::size_t bytes = 0;
  library().get_device_info(device, question, 0, nullptr, &bytes);
  std::string text(bytes, '\0');
  library().get_device_info(device, question, bytes, text.data(), nullptr);
  while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
  return text;
}

DeviceFacts facts_of(DeviceId device) {
  return {.name = text_fact(device, kDeviceName),
          .version = text_fact(device, kDeviceVersion),
          .driver = text_fact(device, kDriverVersion),
          .is_gpu = (fact<Flags>(device, kDeviceType) & kGpu) != 0,
          .is_cpu = (fact<Flags>(device, kDeviceType) & kCpu) != 0,
          .shares_memory = fact<Name>(device, kUnifiedMemory) != 0,
          .work_group = fact<std::size_t>(device, kMaxWorkGroupSize),
          .local_memory = fact<Name>(device, kLocalMemoryType) == 0
                              ? 0
                              : static_cast<std::size_t>(fact<std::uint64_t>(device, kLocalMemory)),
          .memory = static_cast<std::size_t>(fact<std::uint64_t>(device, kGlobalMemory)),
          .largest_buffer = static_cast<std::size_t>(fact<std::uint64_t>(device, kMaxAllocation)),
          .floats = fact<Name>(device, kPreferredFloats)};
}

std::vector<Platform> platforms() {
  Name count = 0;
  library().get_platforms(0, nullptr, &count);
  std::vector<Platform> found(count);
  if (count > 0) library().get_platforms(count, found.data(), nullptr);
  return found;
}

/// The devices of all platforms, in the order that the library gives. Throws Error where there are
/// none.
std::vector<DeviceId> present_devices() {
  const std::vector<Platform> drivers = platforms();
  std::vector<DeviceId> devices;
  for (const Platform platform : drivers) {
    Name found = 0;
    if (library().get_devices(platform, kEveryDevice, 0, nullptr, &found) != kSuccess) continue;
    const std::size_t before = devices.size();
    devices.resize(before + found);
    library().get_devices(platform, kEveryDevice, found, devices.data() + before, nullptr);
  }
  require(!drivers.empty(),
          "opencl: expected a device, found no platform with one (a driver is missing, such as "
          "Debian's pocl-opencl-icd for the CPU)");
  require(!devices.empty(),
          "opencl: expected a device, found a driver without one (PoCL has none where it cannot "
          "write its cache, POCL_CACHE_DIR or ~/.cache/pocl)");
  return devices;
}

/// The number of the device that is taken where none is named.
std::size_t default_device(const std::vector<DeviceId>& devices) {
  const std::string number = from_environment("LONGFORMER_OPENCL_DEVICE");
  if (!number.empty()) {
    std::size_t index = 0;
    const char* end = number.data() + number.size();
    const auto [stop, fault] = std::from_chars(number.data(), end, index);
    require(fault == std::errc() && stop == end && index < devices.size(),
            "LONGFORMER_OPENCL_DEVICE: expected 0 to {}, found \"{}\"", devices.size() - 1, number);
    return index;
  }
  const auto gpu = std::ranges::find_if(
      devices, [](DeviceId device) { return (fact<Flags>(device, kDeviceType) & kGpu) != 0; });
  return gpu == devices.end() ? 0 : static_cast<std::size_t>(gpu - devices.begin());
}

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Another process sees the whole file or none. A cache that cannot be written is no fault.
bool write_whole(const fs::path& path, std::string_view bytes) {
  std::error_code fault;
  fs::create_directories(path.parent_path(), fault);
  const fs::path temporary = fmt::format("{}.{}", path.string(), ::getpid());
  std::ofstream file(temporary, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) fs::rename(temporary, path, fault);
  if (!file || fault) {
    fs::remove(temporary, fault);
    return false;
  }
  return true;
}

std::string first_line(const std::string& log) {
  std::size_t begin = log.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "no log";
  // Lines that name an error are why the build failed; warnings may come before them.
  const std::size_t error = log.find("error:");
  if (error != std::string::npos) {
    const std::size_t line = log.rfind('\n', error);
    begin = line == std::string::npos ? begin : line + 1;
  }
  return log.substr(begin, log.find_first_of("\r\n", begin) - begin);
}

}  // namespace

Program::Kernel& Program::found(const char* name) {
  Kernel& kernel = kernels_[name];
  if (kernel.id == nullptr) {
    Status status = kSuccess;
    kernel.id = library().create_kernel(program_, name, &status);
    require(status == kSuccess, "opencl: expected a kernel {}, found none (status {})", name,
            status);
  }
  return kernel;
}

KernelId Program::kernel(const char* name) { return found(name).id; }

std::size_t Program::largest_group(const char* name, const Device& device) {
  Kernel& kernel = found(name);
  if (kernel.largest_group == 0) {
    device.expect(
        library().get_kernel_group(kernel.id, device.id(), kKernelWorkGroupSize,
                                   sizeof(kernel.largest_group), &kernel.largest_group, nullptr),
        "ask for the work group of a kernel");
  }
  return kernel.largest_group;
}

Device& Device::get(std::optional<std::size_t> number) {
  // Tensors of any lifetime lie on the devices, so these never end.
  static auto& opened = *new std::map<DeviceId, std::unique_ptr<Device>>;
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  const std::vector<DeviceId> devices = present_devices();
  require(!number || *number < devices.size(), OptionName("device"),
          "expected opencl:0 to opencl:{}, found opencl:{}", devices.size() - 1,
          number.value_or(0));
  const DeviceId id = devices[number ? *number : default_device(devices)];
  std::unique_ptr<Device>& device = opened[id];
  if (device == nullptr) device.reset(new Device(id));
  return *device;
}

std::vector<DeviceFacts> Device::every() {
  std::vector<DeviceFacts> all;
  for (const DeviceId device : present_devices()) all.push_back(facts_of(device));
  return all;
}

Device::Device(DeviceId id) : device_(id), facts_(facts_of(device_)) {
  require(fact<Name>(device_, kIsAvailable) != 0, "opencl: {}: expected an available device",
          facts_.name);
  require(fact<Name>(device_, kHasCompiler) != 0,
          "opencl: {}: expected a device with a compiler, found none", facts_.name);
  require(facts_.local_memory > 0,
          "opencl: {}: expected a device with local memory for fp32 numbers, found none",
          facts_.name);
  Status status = kSuccess;
  context_ = library().create_context(nullptr, 1, &device_, nullptr, nullptr, &status);
  expect(status, "create a context");
  queue_ = library().create_queue(context_, device_, 0, &status);
  expect(status, "create a queue");
  pool_ = std::make_unique<MemoryPool>(*this);
  pass_data_ = std::make_unique<PassData>();
}

Device::~Device() = default;

Groups Device::groups_for(Index items) const {
  const std::size_t size = std::min<std::size_t>(facts_.is_gpu ? 128 : 512, facts_.work_group);
  return {(static_cast<std::size_t>(items) + size - 1) / size, size};
}

void Device::expect(Status status, const char* action) const {
  if (status == kSuccess) return;
  const bool memory = status == kAllocationFailure || status == kOutOfResources ||
                      status == kOutOfHostMemory || status == kInvalidBufferSize;
  require(!memory, "opencl: {}: out of memory: could not {} (status {})", facts_.name, action,
          status);
  fail("opencl: {}: could not {} (status {})", facts_.name, action, status);
}

std::string Device::build_log(ProgramId program) const {
  std::size_t bytes = 0;
  library().get_build_info(program, device_, kBuildLog, 0, nullptr, &bytes);
  std::string log(bytes, '\0');
  library().get_build_info(program, device_, kBuildLog, bytes, log.data(), nullptr);
  return log.c_str();
}

Program& Device::program(std::string_view source, const std::string& options) {
  const std::pair<const void*, std::string> key(source.data(), options);
  if (const auto found = programs_.find(key); found != programs_.end()) return found->second;
  return programs_.emplace(key, Program(compile(source, options))).first->second;
}

ProgramId Device::compile(std::string_view source, const std::string& options) const {
  std::uint64_t hash = fnv1a(source);
  for (const std::string* part : {&options, &facts_.name, &facts_.version, &facts_.driver}) {
    hash = fnv1a(*part, fnv1a("\n", hash));
  }
  const fs::path folder = cache_folder();
  const std::string path =
      folder.empty() ? "" : (folder / fmt::format("{:016x}.bin", hash)).string();
  if (!path.empty()) {
    if (const ProgramId kept = cached(path, options)) return kept;
  }
  Status status = kSuccess;
  const char* text = source.data();
  const std::size_t length = source.size();
  const ProgramId program = library().create_program(context_, 1, &text, &length, &status);
  expect(status, "take the kernels");
  status = library().build_program(program, 1, &device_, options.c_str(), nullptr, nullptr);
  if (status != kSuccess) {
    const std::string log = build_log(program);
    const fs::path log_path =
        (folder.empty() ? fs::temp_directory_path() : folder) / fmt::format("{:016x}.log", hash);
    const bool written = write_whole(log_path, log);
    fail("opencl: {}: its compiler refused the kernels: {} (log: {})", facts_.name, first_line(log),
         written ? log_path.string() : "not written");
  }
  if (!path.empty()) keep(program, path);
  return program;
}

/// Null where there is none, or a damaged one.
ProgramId Device::cached(const std::string& path, const std::string& options) const {
  const std::string file = contents(path);
  const std::size_t head = kCacheTitle.size() + 1 + 16 + 1;
  if (file.size() <= head || !file.starts_with(kCacheTitle)) return nullptr;
  const std::string_view binary = std::string_view(file).substr(head);
  if (file.substr(0, head) != fmt::format("{}\n{:016x}\n", kCacheTitle, fnv1a(binary))) {
    return nullptr;
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const std::size_t length = binary.size();
  Status loaded = kSuccess, status = kSuccess;
  const ProgramId program =
      library().create_from_binary(context_, 1, &device_, &length, &bytes, &loaded, &status);
  if (status != kSuccess) return nullptr;
  if (loaded == kSuccess && library().build_program(program, 1, &device_, options.c_str(), nullptr,
                                                    nullptr) == kSuccess) {
    return program;
  }
  library().release_program(program);
  return nullptr;
}

void Device::keep(ProgramId program, const std::string& path) const {
  std::size_t bytes = 0;
  if (library().get_program_info(program, kBinarySizes, sizeof(bytes), &bytes, nullptr) !=
          kSuccess ||
      bytes == 0) {
    return;
  }
  std::string binary(bytes, '\0');
  char* to = binary.data();
  if (library().get_program_info(program, kBinaries, sizeof(to), &to, nullptr) != kSuccess) return;
  write_whole(path, fmt::format("{}\n{:016x}\n", kCacheTitle, fnv1a(binary)) + binary);
}

Buffer::Buffer(Device& device, const void* host, std::size_t bytes)
    : Buffer(device, const_cast<void*>(host), bytes, false) {}

Buffer Buffer::result(Device& device, void* host, std::size_t bytes) {
  return {device, host, bytes, true};
}

Buffer Buffer::filled(Device& device, void* host, std::size_t bytes) {
  return {device, host, bytes, false};
}

Buffer::Buffer(Device& device, void* host, std::size_t bytes, bool is_result)
    : device_(&device), host_(bytes > 0 ? host : nullptr), bytes_(bytes) {
  const DeviceFacts& facts = device.facts();
  require(bytes <= facts.largest_buffer,
          "opencl: {}: out of memory: expected at most {} MiB in one array, found {}", facts.name,
          facts.largest_buffer >> 20, bytes >> 20);
  const bool shared = facts.shares_memory && host_ != nullptr;
  Status status = kSuccess;
  // A buffer of no bytes is none at all, and kernels take one anyway.
  memory_ =
      library().create_buffer(device.context(), kReadWrite | (shared ? kUseHostPointer : Flags{0}),
                              bytes > 0 ? bytes : 16, shared ? host_ : nullptr, &status);
  device.expect(status, "allocate memory");
  if (host_ == nullptr || shared || is_result) return;
  status = library().write_buffer(device.queue(), memory_, kBlocking, 0, bytes, host_, 0, nullptr,
                                  nullptr);
  if (status != kSuccess) {
    library().release_memory(memory_);
    device.expect(status, "copy to the device");
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(other.device_),
      host_(other.host_),
      bytes_(other.bytes_),
      memory_(std::exchange(other.memory_, nullptr)) {}

Buffer::~Buffer() {
  if (memory_ != nullptr) library().release_memory(memory_);
}

void Buffer::read() {
  if (bytes_ == 0 || host_ == nullptr) return;
  const Library& cl = library();
  Status status = kSuccess;
  if (!device_->facts().shares_memory) {
    status =
        cl.read_buffer(device_->queue(), memory_, kBlocking, 0, bytes_, host_, 0, nullptr, nullptr);
    return device_->expect(status, "copy from the device");
  }
  void* mapped = cl.map_buffer(device_->queue(), memory_, kBlocking, kMapRead, 0, bytes_, 0,
                               nullptr, nullptr, &status);
  device_->expect(status, "read the result");
  device_->expect(cl.unmap(device_->queue(), memory_, mapped, 0, nullptr, nullptr),
                  "release the result");
  device_->expect(cl.finish(device_->queue()), "finish");
}

void run_with(Device& device, Program& program, const char* name, Groups groups,
              std::span<const Argument> arguments) {
  if (groups.count == 0) return;
  const Library& cl = library();
  const KernelId kernel = program.kernel(name);
  require(groups.size <= program.largest_group(name, device),
          "opencl: {}: expected a work group of {} for the kernel {}, found room for {}",
          device.facts().name, groups.size, name, program.largest_group(name, device));
  Name number = 0;
  for (const Argument& argument : arguments) {
    device.expect(cl.set_argument(kernel, number++, argument.bytes, argument.data),
                  "pass an argument");
  }
  const std::size_t items = groups.count * groups.size;
  device.expect(
      cl.run(device.queue(), kernel, 1, nullptr, &items, &groups.size, 0, nullptr, nullptr),
      "run a kernel");
}

}  // namespace longformer::kernels::opencl
