#include "index_names.h"

#include <algorithm>
#include <system_error>

#include "inputs.h"

namespace longformer::cli {
namespace {

namespace fs = std::filesystem;

bool is_no_file(const std::string& name) { return name == kStandardInput || name == "-"; }

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// Relative to a folder, unless only the root holds both.
std::string path_from(const fs::path& path, const fs::path& folder) {
  const fs::path from_root = path.relative_path(), folder_from_root = folder.relative_path();
  const bool meet = !from_root.empty() && !folder_from_root.empty() &&
                    *from_root.begin() == *folder_from_root.begin();
  return (meet ? path.lexically_relative(folder) : path).string();
}

}  // namespace

std::string plain_name(const std::string& name) {
  std::string plain = fs::path(name).lexically_normal().string();
  if (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  return plain;
}

std::string without_line(const std::string& name) {
  const std::size_t file_end = name.find_last_not_of("0123456789");
  const bool has_line =
      file_end != std::string::npos && name[file_end] == ':' && file_end + 1 < name.size();
  return has_line ? name.substr(0, file_end) : name;
}

fs::path whole_path(const std::string& file) {
  std::error_code error;
  const fs::path path = fs::absolute(plain_name(file), error);
  if (fs::is_directory(path, error)) return fs::weakly_canonical(path, error);
  return fs::weakly_canonical(path.parent_path(), error) / path.filename();
}

bool is_below(const fs::path& path, const fs::path& folder) {
  const fs::path rest = path.lexically_relative(folder);
  return !rest.empty() && *rest.begin() != "..";
}

IndexNames::IndexNames(const std::string& index_file, const SearchIndex& index)
    : here_(whole_path(".")), folder_(here_) {
  std::error_code error;
  if (index_file.empty() || !index.names_are_from_its_folder()) return;
  folder_ = fs::weakly_canonical(fs::absolute(index_file, error), error).parent_path();
}

std::string IndexNames::stored(const std::string& file) const {
  return is_no_file(file) ? file : path_from(whole_path(file), folder_);
}

std::string IndexNames::stored_as(const std::string& name,
                                  std::span<const IndexedDocument> documents) const {
  const auto is_in = [&](const std::string& wanted) {
    return std::any_of(documents.begin(), documents.end(),
                       [&](const IndexedDocument& document) { return document.name == wanted; });
  };
  const std::string plain = plain_name(name), file = without_line(plain);
  const std::string stored = this->stored(file) + plain.substr(file.size());
  return !is_in(stored) && !is_there(path(file)) && is_in(plain) ? plain : stored;
}

void IndexNames::call(const std::string& name, const std::string& file) {
  called_[name] = plain_name(file);
}

std::string IndexNames::shown(const std::string& name) const {
  const std::string file = without_line(name);
  for (const std::string& one : {name, file}) {
    if (const auto called = called_.find(one); called != called_.end()) {
      return called->second + name.substr(one.size());
    }
  }
  return is_there(path(name)) || is_there(path(file)) ? path_from_here(name) : name;
}

std::string IndexNames::path_from_here(const std::string& name) const {
  return is_no_file(name) ? name : path_from(path(name), here_);
}

fs::path IndexNames::path(const std::string& name) const {
  return (folder_ / name).lexically_normal();
}

bool IndexNames::is_around(const std::string& folder) const {
  const fs::path whole = whole_path(folder);
  return whole != folder_ && is_below(folder_, whole);
}

}  // namespace longformer::cli
