// Errors about a file whose text cannot be read.
#pragma once

#include <utility>

#include "core/error.h"

namespace longformer::documents {

/// The subject of an Error with a fault: it has no name, which the caller knows.
struct Fault {
  FileFault fault;
};

inline ErrorParts about(const Fault& fault) { return {.reason = {}, .fault = fault.fault}; }

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
