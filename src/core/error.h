// Building of error messages. Kernels assert; everything that sees user input calls fail().
#pragma once

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "longformer/error.h"

namespace longformer {

/// Throws Error with a formatted one-line message.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error with a message and remedies.
template <typename... Args>
[[noreturn]] void fail(std::vector<Remedy> remedies, fmt::format_string<Args...> format,
                       Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...), std::move(remedies));
}

/// Throws Error with the message when the condition does not hold.
template <typename... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error with the message and remedies when the condition does not hold.
template <typename... Args>
void require(bool condition, std::vector<Remedy> remedies, fmt::format_string<Args...> format,
             Args&&... args) {
  if (!condition) fail(std::move(remedies), format, std::forward<Args>(args)...);
}

}  // namespace longformer
