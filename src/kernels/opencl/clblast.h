// The function of CLBlast that is used, declared here like those of OpenCL: building needs no
// headers, and the library is loaded when a device multiplies.
#pragma once

#include <cstddef>

#include "kernels/opencl/library.h"

namespace longformer::kernels::opencl {

struct Clblast {
  /// CLBlastSgemm: layout, transposes, m, n, k, alpha, a, b, beta, c (each with offset and distance
  /// of rows), queue, event.
  int (*sgemm)(int, int, int, std::size_t, std::size_t, std::size_t, float, Memory, std::size_t,
               std::size_t, Memory, std::size_t, std::size_t, float, Memory, std::size_t,
               std::size_t, Queue*, Event*) = nullptr;
};

inline constexpr int kRowMajor = 101, kAsItIs = 111, kTransposed = 112;

/// Throws Error that names the package where it is not installed. LONGFORMER_CLBLAST_LIBRARY names
/// another file.
const Clblast& clblast();
/// Whether it is installed.
bool has_clblast();

}  // namespace longformer::kernels::opencl
