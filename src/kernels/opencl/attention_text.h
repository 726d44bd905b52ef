// Source of the OpenCL kernels (attention.cl), which each driver compiles for its device.
#pragma once

#include <string_view>

namespace longformer::kernels::opencl {

extern const std::string_view kAttentionSource;

}  // namespace longformer::kernels::opencl
