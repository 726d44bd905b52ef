#include "record_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "flags.h"

namespace longformer::cli {
namespace {

using Json = nlohmann::ordered_json;

/// A field by RFC 4180.
std::string field_of(const std::string& text, char separator) {
  if (text.find_first_of(std::string("\"\r\n") + separator) == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted.append(letter == '"' ? 2 : 1, letter);
  return quoted + '"';
}

/// Text as it stands, nothing for null, JSON for everything else.
std::string cell_of(const Json& object, const std::string& key, char separator) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  const bool is_text = found->is_string();
  return field_of(is_text ? found->get_ref<const std::string&>()
                          : found->dump(-1, ' ', false, Json::error_handler_t::replace),
                  separator);
}

/// A row of fields that are ready.
std::string row_of(const std::vector<std::string>& fields, char separator) {
  return fmt::format("{}\n", fmt::join(fields, std::string(1, separator)));
}

}  // namespace

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
  for (const std::string& name : columns_) fields.push_back(field_of(name, separator_));
  output_.write(row_of(fields, separator_));
}

void RecordFile::add(std::string_view object) {
  if (separator_ == 0) return output_.write_object(object);
  if (!columns_.empty()) {
    write_header();
    const Json row = Json::parse(object);
    std::vector<std::string> fields;
    for (const std::string& name : columns_) fields.push_back(cell_of(row, name, separator_));
    return output_.write(row_of(fields, separator_));
  }
  kept_ += object;
  kept_ += '\n';
}

void RecordFile::write_table() {
  const auto each = [this](const auto& use) {
    std::istringstream lines(kept_);
    for (std::string line; std::getline(lines, line);) use(Json::parse(line));
  };
  Json columns = Json::object();
  each([&](const Json& object) {
    for (const auto& [key, value] : object.items()) columns[key] = key;
  });
  const auto write_row = [&](const Json& row) {
    std::string text;
    for (const auto& [key, value] : columns.items()) {
      if (!text.empty() || key != columns.begin().key()) text += separator_;
      text += cell_of(row, key, separator_);
    }
    output_.write(text + "\n");
  };
  if (!columns.empty()) write_row(columns);
  each(write_row);
}

void RecordFile::finish() {
  if (separator_ != 0) columns_.empty() ? write_table() : write_header();
  output_.finish();
}

}  // namespace longformer::cli
