#include "record_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "flags.h"
#include "longformer/report.h"

namespace longformer::cli {
namespace {

/// The values of an object by their names, as they are written.
using Values = std::unordered_map<std::string, std::string>;

Values values_of(std::string_view object) {
  Values values;
  for (JsonMember& member : json_members(object)) {
    values[std::move(member.name)] = std::move(member.value);
  }
  return values;
}

/// Text as it stands, nothing for null, JSON for everything else.
std::string cell_of(const Values& values, const std::string& key, char separator) {
  const auto found = values.find(key);
  if (found == values.end() || found->second == "null") return "";
  const bool is_text = found->second.starts_with('"');
  return table_field(
      is_text ? nlohmann::json::parse(found->second).get<std::string>() : found->second, separator);
}

/// A row of fields that are ready.
std::string row_of(const std::vector<std::string>& fields, char separator) {
  return fmt::format("{}\n", fmt::join(fields, std::string(1, separator)));
}

}  // namespace

std::string table_field(const std::string& text, char separator) {
  if (text.find_first_of(std::string("\"\r\n") + separator) == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted.append(letter == '"' ? 2 : 1, letter);
  return quoted + '"';
}

void check_record_file(const std::string& option, const std::string& file) {
  constexpr std::array<std::string_view, 6> kKnown = {"",      ".jsonl", ".ndjson",
                                                      ".json", ".csv",   ".tsv"};
  if (std::ranges::find(kKnown, suffix_of(file)) != kKnown.end()) return;
  throw UsageError(
      option,
      fmt::format("expected a name that ends in .jsonl, .ndjson, .json, .csv or .tsv, found {}",
                  in_quotes(file)));
}

RecordFile::RecordFile(const std::string& file) : output_(file) {
  const std::string suffix = suffix_of(file);
  if (suffix == ".csv") separator_ = ',';
  if (suffix == ".tsv") separator_ = '\t';
}

void RecordFile::set_columns(std::vector<std::string> columns) { columns_ = std::move(columns); }

void RecordFile::write_header() {
  if (std::exchange(has_header_, true)) return;
  std::vector<std::string> fields;
  for (const std::string& name : columns_) fields.push_back(table_field(name, separator_));
  output_.write(row_of(fields, separator_));
}

void RecordFile::write_row(std::string_view object) {
  const Values row = values_of(object);
  std::vector<std::string> fields;
  for (const std::string& name : columns_) fields.push_back(cell_of(row, name, separator_));
  output_.write(row_of(fields, separator_));
}

void RecordFile::add(std::string_view object) {
  if (separator_ == 0) return output_.write_object(object);
  if (!columns_.empty()) {
    write_header();
    return write_row(object);
  }
  kept_ += object;
  kept_ += '\n';
}

void RecordFile::write_table() {
  const auto each = [this](const auto& use) {
    std::istringstream lines(kept_);
    for (std::string line; std::getline(lines, line);) use(line);
  };
  std::unordered_set<std::string> known;
  each([&](const std::string& object) {
    for (JsonMember& member : json_members(object)) {
      if (known.insert(member.name).second) columns_.push_back(std::move(member.name));
    }
  });
  if (columns_.empty()) return;
  write_header();
  each([&](const std::string& object) { write_row(object); });
}

void RecordFile::finish() {
  if (separator_ != 0) columns_.empty() ? write_table() : write_header();
  output_.finish();
}

}  // namespace longformer::cli
