// A library that is loaded when it is needed, so a program that does not need it starts without it.
#pragma once

#include <dlfcn.h>

#include <span>

#include "core/error.h"

namespace longformer::hub {

/// Stays loaded until the end of the process.
class LoadedLibrary {
 public:
  /// Loads the first of these that is installed. Throws Error: "fetching needs libcurl, which is
  /// not installed (Debian's package libcurl4)".
  LoadedLibrary(const char* title, const char* package, std::span<const char* const> names)
      : title_(title) {
    for (const char* name : names) {
      if (library_ == nullptr) library_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    require(library_ != nullptr,
            "fetching needs {}, which is not installed (Debian's package {}): {}", title, package,
            ::dlerror());
  }

  /// Throws Error where the library has no such function.
  template <typename Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    require(function != nullptr, "expected a later {}, found one without {}", title_, name);
  }

 private:
  const char* title_;
  void* library_ = nullptr;
};

}  // namespace longformer::hub
