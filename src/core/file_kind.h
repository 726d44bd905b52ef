// Kind of a file by its first bytes: a message that names it helps more than the first fault that a
// reader of another format meets.
#pragma once

#include <string>
#include <string_view>

#include "longformer/error.h"

namespace longformer {

/// "a PDF: pdftotext makes text of it".
std::string described(const FileKind& kind);

/// Throws Error, where the bytes are those of a known kind, that names the path, what was
/// expected, and the kind. `own` is a kind that is expected, by the beginning of its name.
void require_no_other_kind(std::string_view path, std::string_view expected,
                           std::string_view beginning, std::string_view own = {});

}  // namespace longformer
