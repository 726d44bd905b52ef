// The files that are meant when folders stand among FILES.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace longformer {

/// Which files of a folder are read. A pattern without / is matched with names, one with / with
/// paths below the folder; * and ? stop at /, and ** stands for any number of folders.
struct FilePatterns {
  /// A file must match one of these; none: document_patterns() in any case.
  std::vector<std::string> include;
  /// Files and folders that match one of these are left out; a pattern that ends in / means folders
  /// alone.
  std::vector<std::string> exclude;
};

struct FoundFiles {
  /// Files as they were named, and for each folder the files below it in the order of their names.
  std::vector<std::string> files;
  /// Those that come from a folder.
  std::set<std::string> from_folders;
  /// Files of folders that no pattern was given for, whose names are those of no documents.
  std::vector<std::string> others;
  /// The folders as they were named.
  std::vector<std::string> folders;
  /// A message for each folder that could not be read.
  std::vector<std::string> errors;
};

/// Looks into the folders among `names` and all below, except hidden files and folders, those of
/// which the names begin with a dot. Links to files count, links to folders are not followed. Calls
/// `progress` with the number of files now and then.
FoundFiles find_files(const std::vector<std::string>& names, const FilePatterns& patterns,
                      const std::function<void(std::size_t)>& progress);

}  // namespace longformer
