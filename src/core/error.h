// Building of error messages. Kernels assert; everything that sees user input calls fail().
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "longformer/error.h"

namespace longformer {

/// An option as an Error names it (ErrorParts::option), and as its message begins.
struct OptionName {
  /// Messages begin with the last part of the path, unless there is a `label`.
  explicit OptionName(std::string_view option)
      : OptionName(option, option.substr(option.rfind('.') + 1)) {}
  OptionName(std::string_view option, std::string_view name) : path(option), label(name) {}

  std::string_view path, label;
};

/// A key of a configuration, whose messages begin with the file and the key.
struct ConfigKey {
  std::string_view file, key;
};

/// A file or text whose name messages begin with, unless it is empty.
struct FileName {
  std::string_view name;
};

/// One of the texts of a call: "document 3", "question 3".
struct TextIndex {
  std::string_view kind;
  std::size_t index;
};

/// The subject of an error, with its fields.
inline ErrorParts about(const OptionName& option) {
  return {.subject = std::string(option.label), .reason = {}, .option = std::string(option.path)};
}
inline ErrorParts about(const ConfigKey& key) {
  return {.subject = fmt::format("{}: {}", key.file, key.key),
          .reason = {},
          .key = std::string(key.key)};
}

inline ErrorParts about(const FileName& file) {
  return {.subject = std::string(file.name), .reason = {}};
}

inline ErrorParts about(const TextIndex& text) {
  return {.subject = fmt::format("{} {}", text.kind, text.index),
          .reason = {},
          .document = static_cast<std::int64_t>(text.index)};
}

/// A subject of messages.
template <typename Subject>
concept ErrorSubject = requires(const Subject& subject) {
  about(subject);
};

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

/// Throws Error about an option or a key: its message is the name of the subject, and the reason.
template <ErrorSubject Subject, typename... Args>
[[noreturn]] void fail(const Subject& subject, fmt::format_string<Args...> format, Args&&... args) {
  ErrorParts parts = about(subject);
  parts.reason = fmt::format(format, std::forward<Args>(args)...);
  throw Error(std::move(parts));
}

/// Throws Error about the subject when the condition does not hold.
template <ErrorSubject Subject, typename... Args>
void require(bool condition, const Subject& subject, fmt::format_string<Args...> format,
             Args&&... args) {
  if (!condition) fail(subject, format, std::forward<Args>(args)...);
}

/// A failed condition of a subject, and what would help.
template <ErrorSubject Subject, typename... Args>
void require(bool condition, std::vector<Remedy> remedies, const Subject& subject,
             fmt::format_string<Args...> format, Args&&... args) {
  if (condition) return;
  ErrorParts parts = about(subject);
  parts.reason = fmt::format(format, std::forward<Args>(args)...);
  parts.remedies = std::move(remedies);
  throw Error(std::move(parts));
}

}  // namespace longformer
