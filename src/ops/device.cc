#include "ops/device.h"

#include <charconv>
#include <optional>

#include "kernels/opencl/device.h"
#include "kernels/opencl/pool.h"
#include "kernels/opencl/products.h"

namespace longformer::ops {
namespace {

namespace opencl = kernels::opencl;

DeviceFacts shown(const opencl::DeviceFacts& facts) {
  return {.name = facts.name,
          .driver = facts.version + ", " + facts.driver,
          .kind = facts.is_gpu   ? "GPU"
                  : facts.is_cpu ? "CPU"
                                 : "accelerator",
          .memory = static_cast<std::int64_t>(facts.memory),
          .local_memory = static_cast<std::int64_t>(facts.local_memory),
          .products =
              opencl::products_of(facts) == opencl::Products::clblast ? "CLBlast" : "own kernels"};
}

}  // namespace

std::shared_ptr<const Device> Device::named(const std::string& name) {
  if (name.empty() || name == "cpu") return nullptr;
  constexpr std::string_view kOpencl = "opencl";
  std::optional<std::size_t> number;
  bool is_known = name.starts_with(kOpencl);
  if (is_known && name.size() > kOpencl.size()) {
    const char* begin = name.data() + kOpencl.size() + 1;
    const char* end = name.data() + name.size();
    const auto [stop, fault] = std::from_chars(begin, end, number.emplace());
    is_known = name[kOpencl.size()] == ':' && fault == std::errc() && stop == end;
  }
  require(is_known, OptionName("device"), "expected cpu, opencl or opencl:N, found \"{}\"", name);
  return std::shared_ptr<const Device>(new Device(opencl::Device::get(number)));
}

std::vector<DeviceFacts> Device::every() {
  std::vector<DeviceFacts> all;
  for (const opencl::DeviceFacts& facts : opencl::Device::every()) all.push_back(shown(facts));
  return all;
}

DeviceFacts Device::facts() const { return shown(device_.facts()); }

void Device::check_room(std::int64_t bytes, std::string_view what) const {
  const std::int64_t memory = facts().memory;
  const auto shown = [](std::int64_t size) {
    const double megabytes = static_cast<double>(size) / 1e6;
    return megabytes < 1000 ? fmt::format("{:.2f} MB", megabytes)
                            : fmt::format("{:.2f} GB", megabytes / 1000);
  };
  require(bytes <= memory, "{}: expected a model of at most {}, found {} of {} in fp32",
          device_.facts().name, shown(memory), what, shown(bytes));
}

Tensor Device::uploaded(const Tensor& tensor) const {
  const Tensor wide = tensor.to(DType::f32);
  const std::scoped_lock turn(device_.turn);
  return device_.pool().uploaded(wide.raw(), wide.shape(), DType::f32);
}

}  // namespace longformer::ops
