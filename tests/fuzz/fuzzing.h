// Common parts of the fuzz targets: an input is a file or a text; an Error is a good answer,
// anything else that leaves the library is a crash.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "longformer/error.h"

namespace longformer::fuzzing {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// A file in memory with these contents.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view contents) : descriptor_(::memfd_create("fuzz", 0)) {
    const bool written =
        descriptor_ >= 0 && ::write(descriptor_, contents.data(), contents.size()) ==
                                static_cast<ssize_t>(contents.size());
    if (!written) std::abort();
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// Runs the call; an Error must be one line.
template <typename Call>
void expect_result_or_error(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
}

}  // namespace longformer::fuzzing
