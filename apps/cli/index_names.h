// The names that files have in a search index: the same from every working folder, and after the
// index and its files have moved together.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "longformer/search.h"

namespace longformer::cli {

/// A document by one name, however it was written: "./a/../b/" is "b".
std::string plain_name(const std::string& name);

/// A name in the index is the path from the folder of the index file, or where no folder but the
/// root holds both, the whole path. Names that are no files, as those that Python gives, stay.
class IndexNames {
 public:
  /// The names of an index file; an empty name is an index in memory, in the working folder.
  /// Names of an older index are taken from the working folder too, as they were given.
  IndexNames(const std::string& index_file, const SearchIndex& index);

  /// The name of a file or folder as somebody calls it here.
  std::string stored(const std::string& file) const;
  /// Stored name for a name that may also be no file.
  std::string stored_as(const std::string& name, std::span<const IndexedDocument> documents) const;
  /// Shows the document of this name by what its file was called.
  void call(const std::string& name, const std::string& file);
  /// A path that leads from the working folder to the file, or the name of what is no file.
  std::string shown(const std::string& name) const;
  /// Path from here to a name, whether or not there is a file.
  std::string path_from_here(const std::string& name) const;
  /// The whole path of a name.
  std::filesystem::path path(const std::string& name) const;
  /// Whether the folder of the index lies below this one, so that relative names may be below too.
  bool is_around(const std::string& folder) const;

 private:
  std::filesystem::path here_, folder_;
  std::map<std::string, std::string> called_;
};

/// The whole path of a file or folder, through no links but, at its end, to a file.
std::filesystem::path whole_path(const std::string& file);

/// Whether a path is the folder or below it.
bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder);

/// The name without the number of a line, as in "a.txt:12"; the name where it has none.
std::string without_line(const std::string& name);

}  // namespace longformer::cli
