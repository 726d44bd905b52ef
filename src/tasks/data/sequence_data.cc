#include "tasks/data/sequence_data.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "formats/json.h"
#include "text/delimited.h"

namespace longformer::tasks {
namespace {

using Names = std::vector<std::string>;

/// The names that a field may have, in order of preference.
struct Fields {
  Names source, target;
};

Fields fields_of(const DataOptions& options) {
  Fields fields = {.source = {"text", "source", "document", "article"},
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

void check(const SequenceExample& example, const std::string& name) {
  require(!example.target.empty(), "expected a text to write in \"{}\", found an empty one", name);
}

void read_table(const DataOptions& options, const Fields& names, SequenceData& data) {
  text::DelimitedReader reader(
      data.path, {.separator = options.format == "tsv" ? '\t' : ',', .quotes = options.quotes});
  std::vector<std::string> fields = options.columns;
  if (fields.empty()) {
    require(reader.next(fields), "{}: expected a header, found an empty file", data.path);
  }
  const std::vector<std::string> header = fields;
  const auto column = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  };
  const auto is_there = [&](const std::string& name) { return column(name) < header.size(); };
  std::string source, target;
  try {
    source = chosen(names.source, "documents", is_there);
    target = chosen(names.target, "texts to write", is_there);
  } catch (const Error& error) {
    throw Error(
        fmt::format("{}: {}; the columns are {}", data.path, error.what(), fmt::join(header, ", ")),
        {Remedy::columns});
  }
  const std::size_t id = column("id");
  while (reader.next(fields)) {
    read_record(fmt::format("{}:{}", data.path, reader.line()), options, data.report, [&] {
      require(fields.size() == header.size(), "expected {} fields, found {}", header.size(),
              fields.size());
      SequenceExample example = {.origin = {.line = reader.line()},
                                 .source = fields[column(source)],
                                 .target = fields[column(target)]};
      if (id < header.size()) example.origin.id = fields[id];
      check(example, target);
      data.examples.push_back(std::move(example));
    });
  }
}

}  // namespace

SequenceData read_sequences(const std::string& path, const DataOptions& given) {
  DataOptions options = given;
  if (options.format.empty()) options.format = detect_format(path, "");
  SequenceData data;
  data.path = path;
  const Fields names = fields_of(options);
  if (options.format == "csv" || options.format == "tsv") {
    read_table(options, names, data);
  } else {
    require(options.format == "json" || options.format == "jsonl",
            "format: expected jsonl, json, csv or tsv for texts about documents, found {}",
            options.format);
    read_objects(path, options, data.report, [&](const Json& object, const Record& record) {
      const auto is_there = [&](const std::string& name) { return object.contains(name); };
      const std::string target = chosen(names.target, "a text to write", is_there);
      SequenceExample example = {
          .origin = {record.number, id_of(object)},
          .source = string_member(object, chosen(names.source, "a document", is_there)),
          .target = string_member(object, target)};
      check(example, target);
      data.examples.push_back(std::move(example));
    });
  }
  require(!data.examples.empty(), "{}: expected at least one example, found none", path);
  return data;
}

}  // namespace longformer::tasks
