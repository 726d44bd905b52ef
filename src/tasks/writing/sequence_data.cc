#include "tasks/writing/sequence_data.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "formats/json.h"

namespace longformer::tasks {
namespace {

using Names = std::vector<std::string>;

/// The names that a field may have, in order of preference.
struct FieldNames {
  Names source, target;
};

FieldNames fields_of(const DataOptions& options) {
  FieldNames fields = {.source = {"text", "source", "document", "article"},
                       .target = {"summary", "target", "highlights", "abstract"}};
  if (options.text_field != DataOptions().text_field) fields.source = {options.text_field};
  if (!options.label_field.empty()) fields.target = {options.label_field};
  return fields;
}

/// The first of the names that is there.
std::string chosen(const Names& names, const char* what,
                   const std::function<bool(const std::string&)>& is_there) {
  const auto found = std::find_if(names.begin(), names.end(), is_there);
  require(found != names.end(), "expected {} in \"{}\", found no such field", what,
          fmt::join(names, "\" or \""));
  return *found;
}

void add(SequenceExample example, const std::string& name, bool skip_empty, SequenceData& data) {
  const bool is_empty = example.target.empty();
  require(!is_empty || !skip_empty, "expected a text to write in \"{}\", found an empty one", name);
  data.report.empty += is_empty ? 1 : 0;
  data.examples.push_back(std::move(example));
}

/// Places and names of the columns of a table.
struct Columns {
  std::size_t source = 0, target = 0, id = 0, count = 0;
  std::string target_name = {};
};

Columns columns_of(const Names& header, const FieldNames& names, const DataOptions& options,
                   const std::string& path) {
  const auto is_there = [&](const std::string& name) {
    return column_of(header, name) < header.size();
  };
  try {
    const std::string source = chosen(names.source, "documents", is_there);
    const std::string target = chosen(names.target, "texts to write", is_there);
    return {column_of(header, source), column_of(header, target), id_column(header, options),
            header.size(), target};
  } catch (const Error& error) {
    throw Error(
        fmt::format("{}: {}; the columns are {}", path, error.what(), fmt::join(header, ", ")),
        {Remedy::text_field, Remedy::label_field, Remedy::columns});
  }
}

void read_table(const DataOptions& options, const FieldNames& names, SequenceData& data) {
  Columns columns;
  read_rows(
      data.path, options, data.report,
      [&](const Names& header) { columns = columns_of(header, names, options, data.path); },
      [&](Names& fields, const Record& record) {
        SequenceExample example = {.origin = {.line = record.number},
                                   .source = fields[columns.source],
                                   .target = fields[columns.target]};
        if (columns.id < columns.count) example.origin.id = fields[columns.id];
        add(std::move(example), columns.target_name, options.skip_invalid, data);
      });
}

}  // namespace

SequenceData read_sequences(const std::string& path, const DataOptions& given) {
  DataOptions options = given;
  if (options.format.empty()) options.format = detect_format(path, options, "");
  SequenceData data;
  data.path = path;
  const FieldNames names = fields_of(options);
  if (options.format == "csv" || options.format == "tsv") {
    read_table(options, names, data);
  } else {
    require(options.format == "json" || options.format == "jsonl", OptionName("data.format"),
            "expected jsonl, json, csv or tsv for texts about documents, found {}", options.format);
    read_objects(path, options, data.report, [&](const Json& object, const Record& record) {
      const auto is_there = [&](const std::string& name) { return object.contains(name); };
      const std::string target = chosen(names.target, "a text to write", is_there);
      SequenceExample example = {
          .origin = origin_of(object, record),
          .source = string_member(object, chosen(names.source, "a document", is_there)),
          .target = string_member(object, target)};
      add(std::move(example), target, options.skip_invalid, data);
    });
  }
  check_any(path, data.examples.size(), data.report);
  return data;
}

}  // namespace longformer::tasks
