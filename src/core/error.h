// Building of error messages. Kernels assert; everything that sees user input calls fail().
#pragma once

#include <fmt/format.h>

#include "longformer/error.h"

namespace longformer {

/// Throws Error with a formatted one-line message.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error with the message when the condition does not hold.
template <typename... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw Error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace longformer
