#include "longformer/search_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "index/metadata.h"
#include "longformer/file_patterns.h"

namespace longformer {
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

/// One path for all names and links of a file.
std::string identity_of(const fs::path& path) {
  std::error_code error;
  return fs::weakly_canonical(path, error).string();
}

/// Whether there is no such file any more. Documents of lines and rows have the file's name and a
/// number; those of stdin never had a file.
bool is_gone(const std::string& path) {
  const auto has_file = [](const std::string& file) {
    std::error_code error;
    const fs::file_type type = fs::status(file, error).type();
    return type != fs::file_type::not_found && type != fs::file_type::directory;
  };
  return !has_file(path) && !has_file(without_line(path));
}

/// The time of the last change of a file, in UTC; empty where there is no such file.
std::string date_of(const std::string& file) {
  struct stat status = {};
  if (stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  using std::chrono::floor;
  const std::chrono::sys_seconds time{std::chrono::seconds(status.st_mtime)};
  const auto day = floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

}  // namespace

std::string plain_name(const std::string& name) {
  std::string plain = fs::path(name).lexically_normal().string();
  if (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  return plain;
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

std::string IndexNames::path_from_here(const std::string& name) const {
  return is_no_file(name) ? name : path_from(path(name), here_);
}

fs::path IndexNames::path(const std::string& name) const {
  return (folder_ / name).lexically_normal();
}

std::string ShownNames::operator()(const std::string& name) {
  const std::string file = without_line(name);
  for (const std::string& one : {name, file}) {
    if (const auto called = names_.called_.find(one); called != names_.called_.end()) {
      return called->second + name.substr(one.size());
    }
  }
  const auto [path, is_new] = paths_.try_emplace(file);
  if (is_new && is_there(names_.path(file))) path->second = names_.path_from_here(file);
  if (!path->second.empty()) return path->second + name.substr(file.size());
  return is_there(names_.path(name)) ? names_.path_from_here(name) : name;
}

bool IndexNames::is_around(const std::string& folder) const {
  const fs::path whole = whole_path(folder);
  return whole != folder_ && is_below(folder_, whole);
}

std::map<std::string, std::string> IndexNames::name(std::vector<std::string>& files,
                                                    const SearchIndex& index) {
  std::map<std::string, std::string> indexed, names;
  std::string former;
  index.each_name([&](const std::string& document) {
    const std::string name = without_line(document);
    // Lines of a file come behind each other.
    if (name == former) return;
    former = name;
    indexed.emplace(identity_of(path(name)), name);
  });
  std::set<std::string> seen;
  std::erase_if(files, [&](const std::string& file) {
    if (file == "-") return false;
    const std::string identity = identity_of(whole_path(file));
    const auto known = indexed.find(identity);
    const std::string name = known == indexed.end() ? stored(file) : known->second;
    names[file] = name;
    const bool is_new = seen.insert(identity).second;
    if (is_new) call(name, file);
    return !is_new;
  });
  return names;
}

std::vector<std::string> IndexNames::gone(const std::string& folder,
                                          const SearchIndex& index) const {
  const fs::path whole = whole_path(folder);
  std::vector<std::string> names;
  index.each_name([&](const std::string& document) {
    const fs::path file = path(document);
    const bool had_file = document != kStandardInput && without_line(document) != "-";
    if (had_file && is_below(file, whole) && is_gone(file.string())) names.push_back(document);
  });
  return names;
}

std::vector<std::string> IndexNames::within(std::span<const std::string> files,
                                            const SearchIndex& index) const {
  std::vector<std::string> names;
  if (files.empty()) return names;
  const std::vector<IndexedDocument> documents = index.list();
  for (const std::string& file : files) {
    if (!is_around(file)) {
      names.push_back(stored_as(file, documents));
      continue;
    }
    const fs::path folder = whole_path(file);
    for (const IndexedDocument& document : documents) {
      if (is_below(path(document.name), folder)) names.push_back(document.name);
    }
  }
  return names;
}

std::vector<std::string> IndexNames::stored(std::vector<std::string> filter) const {
  for (std::string& expression : filter) {
    const index::Condition condition(expression);
    const bool is_part = condition.comparison() == index::Comparison::has_part;
    if (condition.field() != index::kPathField || is_part) continue;
    nlohmann::json patterns = nlohmann::json::array();
    for (const index::Condition::Operand& operand : condition.operands()) {
      const bool is_name = operand.text.find('/') == std::string::npos;
      std::string path = is_name ? operand.text : path_from(whole_path(operand.text), folder_);
      // A pattern without / would be one of names.
      if (!is_name && path.find('/') == std::string::npos) path.insert(0, 1, '/');
      patterns.push_back(std::move(path));
    }
    const bool is_equal = condition.comparison() == index::Comparison::equal;
    expression =
        fmt::format("{}{}{}", index::kPathField, is_equal ? "=" : "!=",
                    patterns.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return filter;
}

std::string file_metadata(const std::string& file, const std::string& row) {
  using Json = nlohmann::ordered_json;
  Json metadata = row.empty() ? Json::object() : Json::parse(row, nullptr, false);
  require(metadata.is_object(), "metadata: expected a JSON object, found another value");
  const std::string date = date_of(file);
  if (!metadata.contains("date") && !date.empty()) metadata["date"] = date;
  return metadata.empty() ? std::string()
                          : metadata.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace longformer
