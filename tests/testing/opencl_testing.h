// Whether tests can run on a device of OpenCL.
#pragma once

#include "core/error.h"
#include "kernels/opencl/device.h"

namespace longformer::kernels {

/// Whether this machine has a device of OpenCL. Sanitizers cannot see through its drivers.
inline bool has_opencl() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  static const bool found = [] {
    try {
      opencl::Device::get();
      return true;
    } catch (const Error&) {
      return false;
    }
  }();
  return found;
#endif
}

}  // namespace longformer::kernels
