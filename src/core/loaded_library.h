// A library that is loaded when it is needed, so a program that does not need it starts without it.
#pragma once

#include <dlfcn.h>

#include <span>

#include "core/error.h"

namespace longformer {

/// Stays loaded until the end of the process.
class LoadedLibrary {
 public:
  /// How messages name the library: "fetching", "libcurl 7.85 or later", "libcurl4".
  struct Names {
    const char* purpose;
    const char* title;
    const char* package;
  };

  /// Loads the first of these files that is installed. Throws Error: "fetching needs libcurl, which
  /// is not installed (Debian's package libcurl4)".
  LoadedLibrary(const Names& names, std::span<const char* const> files) : title_(names.title) {
    for (const char* file : files) {
      if (library_ == nullptr) library_ = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
    }
    require(library_ != nullptr, "{} needs {}, which is not installed (Debian's package {}): {}",
            names.purpose, names.title, names.package, ::dlerror());
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

}  // namespace longformer
