#include "longformer/file_patterns.h"

#include <fnmatch.h>

#include <algorithm>

namespace longformer {
namespace {

std::string_view last_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

bool name_matches(std::string_view pattern, std::string_view name, int flags = 0) {
  return fnmatch(std::string(pattern).c_str(), std::string(name).c_str(), flags) == 0;
}

/// Name by name.
bool path_matches(std::string_view pattern, std::string_view path) {
  const std::size_t pattern_end = std::min(pattern.find('/'), pattern.size());
  const std::size_t path_end = std::min(path.find('/'), path.size());
  const bool last = pattern_end == pattern.size();
  if (pattern.substr(0, pattern_end) == "**") {
    if (last) return true;
    if (path_matches(pattern.substr(pattern_end + 1), path)) return true;
    return path_end < path.size() && path_matches(pattern, path.substr(path_end + 1));
  }
  if (last != (path_end == path.size())) return false;
  if (!name_matches(pattern.substr(0, pattern_end), path.substr(0, path_end))) return false;
  return last || path_matches(pattern.substr(pattern_end + 1), path.substr(path_end + 1));
}

}  // namespace

bool matches(std::string_view pattern, std::string_view path) {
  if (pattern.find('/') == std::string_view::npos) return name_matches(pattern, last_name(path));
  return path_matches(pattern.substr(pattern.starts_with('/') ? 1 : 0), path);
}

std::string without_line(const std::string& name) {
  const std::size_t file_end = name.find_last_not_of("0123456789");
  const bool has_line =
      file_end != std::string::npos && name[file_end] == ':' && file_end + 1 < name.size();
  return has_line ? name.substr(0, file_end) : name;
}

}  // namespace longformer
