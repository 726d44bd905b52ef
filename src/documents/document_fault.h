// Errors about a file whose text cannot be read, on their way to file_contents().
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "core/error.h"
#include "longformer/document_files.h"

namespace longformer::documents {

/// An Error that has a fault, and no subject: its caller knows the name of the file.
class FaultyFile : public Error {
 public:
  FaultyFile(FileFault fault, const std::string& reason) : Error(reason), fault_(fault) {}
  FileFault fault() const { return fault_; }

 private:
  FileFault fault_;
};

template <typename... Args>
[[noreturn]] void fail_with(FileFault fault, fmt::format_string<Args...> format, Args&&... args) {
  throw FaultyFile(fault, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void require_or(FileFault fault, bool condition, fmt::format_string<Args...> format,
                Args&&... args) {
  if (!condition) fail_with(fault, format, std::forward<Args>(args)...);
}

/// Limits that keep hostile files from taking all memory.
struct Limits {
  /// Bytes of all parts of a document, and of a part in XML, whose tree takes many times its size.
  static constexpr std::size_t unpacked = std::size_t{256} << 20;
  static constexpr std::size_t xml = std::size_t{64} << 20;
  /// No text that anyone writes packs so well, beyond a size that does no harm.
  static constexpr std::size_t ratio = 200, harmless = std::size_t{4} << 20;
  /// Elements within elements. Tables within tables have some ten each.
  static constexpr int depth = 400;
};

}  // namespace longformer::documents
