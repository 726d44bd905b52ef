// The parts of a document that is a zip archive.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "formats/zip_archive.h"

namespace longformer::documents {

/// Unpacks the parts that are asked for, within limits for one and for all together.
class DocumentArchive {
 public:
  /// The bytes must live as long. Throws Error, `damaged`, for what is no whole archive.
  explicit DocumentArchive(std::string_view bytes);

  static bool is_one(std::string_view bytes);

  bool has(const std::string& name) const { return entries_.contains(name); }
  /// Throws Error for a part that is missing, damaged, locked or too large.
  std::string part(const std::string& name, std::size_t most);

 private:
  std::map<std::string, formats::ZipEntry> entries_;
  std::size_t unpacked_ = 0;
};

/// The name of a part that another one refers to by a path from its folder, or from the root where
/// it begins with a slash: "text/a b.html" for "../text/a%20b.html#c" in "opf/content.opf".
std::string referred_part(const std::string& from, std::string_view reference);

}  // namespace longformer::documents
