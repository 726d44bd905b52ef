// Patterns of paths, and names of rows of files.
#pragma once

#include <string>
#include <string_view>

namespace longformer {

/// Whether a path below a folder matches a pattern of FilePatterns.
bool matches(std::string_view pattern, std::string_view path);

/// The name without the number of a line, as in "a.txt:12"; the name where it has none.
std::string without_line(const std::string& name);

}  // namespace longformer
