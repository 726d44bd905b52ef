#include "tasks/masked_lm/text_data.h"

#include <filesystem>

#include "formats/json.h"
#include "longformer/tables.h"

namespace longformer::tasks {

namespace {

/// Reads a file of its own, or one of the folder `whole`.
void read_file(const std::string& path, const std::string& whole, const DataOptions& given,
               DataReport& report, const std::function<void(const std::string&)>& take) {
  DataOptions options = given;
  const bool is_document = options.format.empty();
  if (options.format.empty()) {
    const std::string table = table_format_of(path);
    options.format = table.empty() ? "text" : table;
  }
  const auto take_one = [&](const std::string& text) {
    if (text.empty()) ++report.empty;
    take(text);
  };
  if (options.format == "jsonl" || options.format == "json") {
    read_objects(path, options, report, [&](const Json& object, const Record&) {
      take_one(text_member(object, options));
    });
    return;
  }
  if (options.format == "csv" || options.format == "tsv") {
    std::size_t column = 0;
    read_rows(
        path, options, report,
        [&](const std::vector<std::string>& columns) {
          column =
              known_column(columns, options.text_field, "the text", {path, Remedy::text_field});
        },
        [&](std::vector<std::string>& fields, const Record&) { take_one(fields[column]); });
    return;
  }
  if (options.format == "text") {
    report.file = whole;
    read_record(path, options, report, [&] {
      take_one(is_document ? read_one_document(path, options) : read_whole_text(path, options));
    });
    return;
  }
  require(options.format == "lines", OptionName("data.format"),
          "expected text, lines, jsonl, json, csv or tsv for a masked LM, found {}",
          options.format);
  TextLines lines = lines_of(path, options);
  std::string line;
  while (lines.next(line)) {
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    ++report.examples;
    take_one(line);
  }
}

}  // namespace

void read_texts(const std::string& path, const DataOptions& given, DataReport& report,
                const std::function<void(const std::string&)>& take) {
  if (!given.format.empty() || !std::filesystem::is_directory(path)) {
    return read_file(path, path, given, report, take);
  }
  for (const std::string& file : document_files_of(path, report)) {
    read_file(file, path, given, report, take);
  }
}

}  // namespace longformer::tasks
