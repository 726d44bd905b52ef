#include "record_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "flags.h"

namespace longformer::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Text as it stands, nothing for null, JSON for everything else.
std::string cell_of(const Json& object, const std::string& key, char separator) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  const std::string text = found->is_string() ? found->get<std::string>() : found->dump();
  if (text.find_first_of(std::string("\"\r\n") + separator) == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted.append(letter == '"' ? 2 : 1, letter);
  return quoted + '"';
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

void RecordFile::add(std::string_view object) {
  if (separator_ == 0) return output_.write_object(object);
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
  if (separator_ != 0) write_table();
  output_.finish();
}

}  // namespace longformer::cli
