#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "longformer/document_files.h"
#include "longformer/file_patterns.h"
#include "longformer/files.h"

namespace longformer {
namespace {

namespace fs = std::filesystem;

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
      const std::string name = fs::path(unpacked_name(path)).filename().string();
      const std::vector<std::string>& patterns = document_patterns();
      return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
        return fnmatch(pattern.c_str(), name.c_str(), FNM_CASEFOLD) == 0;
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

}  // namespace longformer
