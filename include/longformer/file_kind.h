// The kind of a file by its first bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace longformer {

/// First bytes that tell the kind of a file, except for what is in a zip archive.
inline constexpr std::size_t kKindBytes = 512;

struct FileKind {
  /// Its name in messages: "a PDF". Empty for plain text and for what is not known.
  std::string_view name = {};
  /// Advice to the user: "pdftotext makes text of it"; may be empty.
  std::string_view advice = {};
  /// Text with marks: HTML and XML.
  bool is_markup = false;

  bool is_known() const { return !name.empty(); }
  /// Whether it may be read as text.
  bool may_be_text() const { return !is_known() || is_markup; }
};

/// The kind of a file that begins so: kKindBytes of it, some thousand bytes to tell what is in a
/// zip archive, or the whole.
FileKind file_kind(std::string_view beginning);

}  // namespace longformer
