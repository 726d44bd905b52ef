#include "kernels/opencl/clblast.h"

#include <array>
#include <cstdlib>

#include "core/loaded_library.h"

namespace longformer::kernels::opencl {
namespace {

Clblast loaded_clblast() {
  const char* named = std::getenv("LONGFORMER_CLBLAST_LIBRARY");
  const LoadedLibrary file({"products by CLBlast", "libclblast", "libclblast1"},
                           std::array{named != nullptr ? named : "libclblast.so.1"});
  Clblast found;
  file.find("CLBlastSgemm", found.sgemm);
  return found;
}

}  // namespace

const Clblast& clblast() {
  static const Clblast loaded = loaded_clblast();
  return loaded;
}

bool has_clblast() {
  try {
    clblast();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace longformer::kernels::opencl
