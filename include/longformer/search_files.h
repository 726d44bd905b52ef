// The names that files have in a search index: the same from every working folder, and after the
// index and its files have moved together.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "longformer/search.h"

namespace longformer {

/// The name of what is read from stdin.
inline constexpr const char* kStandardInput = "standard input";

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
  /// Path from here to a name, whether or not there is a file.
  std::string path_from_here(const std::string& name) const;
  /// The whole path of a name.
  std::filesystem::path path(const std::string& name) const;
  /// Whether the folder of the index lies below this one, so that relative names may be below too.
  bool is_around(const std::string& folder) const;
  /// Gives files the names that their documents have or get, in this order, and leaves out those
  /// that stand twice; a file that is in the index by another name, through a link perhaps, keeps
  /// that. "-" has no name.
  std::map<std::string, std::string> name(std::vector<std::string>& files,
                                          const SearchIndex& index);
  /// Names of documents below a folder whose files are gone.
  std::vector<std::string> gone(const std::string& folder, const SearchIndex& index) const;
  /// SearchQuery::within for files and folders as somebody calls them here. A folder around that of
  /// the index is in no name: documents below it take its place.
  std::vector<std::string> within(std::span<const std::string> files,
                                  const SearchIndex& index) const;
  /// Conditions of SearchQuery::filter as the index knows them: patterns of paths with a / are
  /// paths from the working folder.
  std::vector<std::string> stored(std::vector<std::string> filter) const;

 private:
  friend class ShownNames;

  std::filesystem::path here_, folder_;
  std::map<std::string, std::string> called_;
};

/// Names of documents here and now: a path that leads from the working folder to the file, or the
/// name of what is no file. Looks once for a file that many documents are from.
class ShownNames {
 public:
  explicit ShownNames(const IndexNames& names) : names_(names) {}

  std::string operator()(const std::string& name);

 private:
  const IndexNames& names_;
  /// Empty for files that are not there.
  std::map<std::string, std::string> paths_;
};

/// The whole path of a file or folder, through no links but, at its end, to a file.
std::filesystem::path whole_path(const std::string& file);

/// Whether a path is the folder or below it.
bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder);

/// The metadata of a document of a file, as a JSON object: the other fields of its row, which may
/// be empty, and as "date" the time of the last change of the file, where the row has no such
/// field.
std::string file_metadata(const std::string& file, const std::string& row = {});

}  // namespace longformer
