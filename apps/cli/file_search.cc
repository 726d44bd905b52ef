#include "file_search.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "longformer/document_files.h"

namespace longformer::cli {
namespace {

namespace fs = std::filesystem;

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

class FolderWalk {
 public:
  FolderWalk(std::string folder, const FilePatterns& patterns, FoundFiles& found,
             const std::function<void(std::size_t)>& progress)
      : folder_(std::move(folder)), patterns_(patterns), found_(found), progress_(progress) {}

  void run() { enter(""); }

 private:
  /// `below` is the path of a folder below the one that is walked.
  void enter(const fs::path& below) {
    const fs::path folder = fs::path(folder_) / below;
    std::vector<fs::directory_entry> entries;
    std::error_code error;
    fs::directory_iterator next(folder, error);
    while (!error && next != fs::directory_iterator()) {
      if (!next->path().filename().string().starts_with('.')) entries.push_back(*next);
      next.increment(error);
    }
    if (error) {
      found_.errors.push_back(fmt::format("{}: cannot read: {}", folder.string(), error.message()));
    }
    std::sort(entries.begin(), entries.end());
    for (const fs::directory_entry& entry : entries) {
      take(entry, below / entry.path().filename());
    }
    progress_(found_.files.size());
  }

  void take(const fs::directory_entry& entry, const fs::path& below) {
    std::error_code error;
    const bool is_folder = entry.is_directory(error);
    if (is_excluded(below.string(), is_folder)) return;
    if (is_folder) {
      if (!entry.is_symlink(error)) enter(below);
      return;
    }
    // Pipes and devices may have no end; a link to nothing is told by who reads it.
    const fs::file_type type = entry.status(error).type();
    if (type != fs::file_type::regular && type != fs::file_type::not_found) return;
    if (!is_included(below.string())) {
      if (patterns_.include.empty()) found_.others.push_back(entry.path().string());
      return;
    }
    found_.files.push_back(entry.path().string());
    found_.from_folders.insert(found_.files.back());
  }

  bool is_included(const std::string& path) const {
    if (patterns_.include.empty()) {
      const std::string unpacked = unpacked_name(path);
      const std::vector<std::string>& patterns = document_patterns();
      return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
        return name_matches(pattern, last_name(unpacked), FNM_CASEFOLD);
      });
    }
    return std::any_of(patterns_.include.begin(), patterns_.include.end(),
                       [&](const std::string& pattern) { return matches(pattern, path); });
  }

  bool is_excluded(const std::string& path, bool is_folder) const {
    return std::any_of(
        patterns_.exclude.begin(), patterns_.exclude.end(), [&](const std::string& pattern) {
          const bool of_folders = pattern.size() > 1 && pattern.ends_with('/');
          if (of_folders && !is_folder) return false;
          return matches(std::string_view(pattern).substr(0, pattern.size() - (of_folders ? 1 : 0)),
                         path);
        });
  }

  std::string folder_;
  const FilePatterns& patterns_;
  FoundFiles& found_;
  const std::function<void(std::size_t)>& progress_;
};

}  // namespace

bool matches(std::string_view pattern, std::string_view path) {
  if (pattern.find('/') == std::string_view::npos) return name_matches(pattern, last_name(path));
  return path_matches(pattern.substr(pattern.starts_with('/') ? 1 : 0), path);
}

FoundFiles find_files(const std::vector<std::string>& names, const FilePatterns& patterns,
                      const std::function<void(std::size_t)>& progress) {
  FoundFiles found;
  for (const std::string& name : names) {
    std::error_code error;
    if (name != "-" && fs::is_directory(name, error)) {
      found.folders.push_back(name);
      FolderWalk(name, patterns, found, progress).run();
    } else {
      found.files.push_back(name);
    }
  }
  return found;
}

}  // namespace longformer::cli
