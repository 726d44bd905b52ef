// Sources of the OpenCL kernels (*.cl), which each driver compiles for its device.
#pragma once

#include <string_view>

namespace longformer::kernels::opencl {

extern const std::string_view kAttentionSource, kProductsSource, kRowsSource;

}  // namespace longformer::kernels::opencl
