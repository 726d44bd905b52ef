// Devices that ops run on: tensors and layers that are laid there stay there, and so does what ops
// make of them. Results come to the host by Tensor::to_floats.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/tensor.h"

namespace longformer::kernels::opencl {
class Device;
}

namespace longformer::ops {

/// Facts that a device tells.
struct DeviceFacts {
  std::string name, driver;
  /// "GPU", "CPU" or "accelerator".
  std::string kind;
  std::int64_t memory = 0, local_memory = 0;
  /// Source of its products: "CLBlast" or "own kernels".
  std::string products;
};

class Device {
 public:
  /// "opencl" or "opencl:N"; null for an empty name and "cpu". Throws Error for others, and where
  /// there is no such device.
  static std::shared_ptr<const Device> named(const std::string& name);
  /// All devices of OpenCL in the order of their numbers. Throws Error where there are none.
  static std::vector<DeviceFacts> every();

  DeviceFacts facts() const;
  /// Throws Error when so many bytes are more than the device has.
  void check_room(std::int64_t bytes, std::string_view what) const;
  /// A copy on the device, in fp32.
  Tensor uploaded(const Tensor& tensor) const;

 private:
  explicit Device(kernels::opencl::Device& device) : device_(device) {}
  kernels::opencl::Device& device_;
};

/// For ops that only the CPU has: throws Error for tensors on a device.
template <typename... Tensors>
void refuse_device(std::string_view op, const Tensors&... tensors) {
  require(!(tensors.is_on_device() || ...),
          "{}: expected a model on the CPU, found one on a device, which has no such op", op);
}

}  // namespace longformer::ops
