// What a file is by its first bytes: a message that names it helps more than the first fault that a
// reader of another format meets.
#pragma once

#include <cstddef>
#include <string_view>

namespace longformer {

/// First bytes that tell the kind of a file.
inline constexpr std::size_t kKindBytes = 512;

struct FileKind {
  /// What it is, for messages: "a git-lfs pointer, not the file itself: git lfs pull".
  /// Empty for plain text and for what is not known.
  std::string_view name = {};
  /// Text with marks: HTML and XML.
  bool is_markup = false;

  bool is_known() const { return !name.empty(); }
};

/// The kind of a file that begins so, kKindBytes of it or the whole.
FileKind file_kind(std::string_view beginning);

/// Throws Error, where the bytes are those of a known kind, that names the path, what was
/// expected, and the kind. `own` is a kind that is expected, by the beginning of its name.
void require_no_other_kind(std::string_view path, std::string_view expected,
                           std::string_view beginning, std::string_view own = {});

}  // namespace longformer
