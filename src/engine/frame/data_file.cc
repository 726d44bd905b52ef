#include "engine/frame/data_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <span>
#include <utility>

#include "core/input_file.h"
#include "core/words.h"
#include "formats/json.h"
#include "longformer/document_files.h"
#include "longformer/files.h"
#include "longformer/report.h"

namespace longformer::engine {
namespace {

using Names = std::vector<std::string>;

Names names_in(const Json& object) {
  Names names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

/// Whether a line is one record: an object, but not one that holds all records.
bool is_json_line(const std::string& line, const DataOptions& options) {
  if (!line.starts_with('{')) return false;
  try {
    const Json value = formats::parse_json_data(line, "line");
    return value.is_object() && !holds_list(value, options.text_field);
  } catch (const Error&) {
    return false;
  }
}

/// Whether a line is a header of several columns, one of which has this name.
bool has_column(const std::string& line, char between, const std::string& name) {
  const auto fields = text::fields_of(line, {.separator = between});
  return fields.size() > 1 && std::find(fields.begin(), fields.end(), name) != fields.end();
}

/// The option --delimiter, checked.
char delimiter_of(const DataOptions& options) {
  const std::string& given = options.delimiter;
  require(given.size() == 1 && given != "\"" && given != "\n" &&
              static_cast<unsigned char>(given[0]) < 0x80,
          OptionName("data.delimiter"), "expected one character of ASCII, found {}",
          formats::quote(given));
  return given[0];
}

/// Throws Error where a name that matters is that of two columns.
void check_names(const std::vector<std::string>& columns, const DataOptions& options,
                 const std::string& path) {
  for (const std::string& name : {options.text_field, options.pair_field, options.label_field,
                                  options.id_field, std::string("label"), std::string("id")}) {
    require(name.empty() || std::ranges::count(columns, name) < 2, FileName{path},
            "expected one column {}, found two: the columns are {}", formats::quote(name),
            listed_columns(columns));
  }
}

/// Puts the id of the options into the member "id". Its own member stays where it is something else
/// too.
void call_id(Json& object, const DataOptions& options) {
  if (options.id_field.empty()) return;
  const auto found = object.find(options.id_field);
  if (found == object.end()) {
    fail({Remedy::id_field}, "expected an id in the member {}, found no such member among {}",
         formats::quote(options.id_field), listed_columns(names_in(object)));
  }
  if (options.id_field == "id") return;
  Json id = *found;
  const bool is_more = options.id_field == options.text_field ||
                       options.id_field == options.pair_field ||
                       options.id_field == options.label_field;
  if (!is_more) object.erase(found);
  object["id"] = std::move(id);
}

/// The member that holds the id, by the name that it has in the file; null for none.
const Json* id_member(const Json& object, const DataOptions& options, std::string& name) {
  Names keys = {"id", "_id"};
  if (!options.id_field.empty()) keys = {options.id_field};
  for (const std::string& key : keys) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (!object.is_object() || found == object.end() || is_none(*found)) continue;
    name = key;
    return &*found;
  }
  return nullptr;
}

/// Whether a text may be a whole number of more than 64 bits: see formats::parse_json_data.
bool may_be_digits(const Json& value) {
  constexpr std::size_t kDigits = 19;
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return text.size() >= kDigits && text.find_first_not_of("-0123456789") == std::string::npos;
}

/// Whether only the text of the object says how its id is written.
bool needs_text(const Json& id) { return id.is_number_float() || may_be_digits(id); }

/// The list of records that a JSON value holds.
const Json& records_of(const Json& value, const std::string& path, const DataOptions& options) {
  if (value.is_array()) return value;
  require(holds_list(value, options.text_field),
          "{}: expected a list of objects, or an object with a list \"data\", found {}", path,
          formats::shown(value));
  return value["data"];
}

const Json& member(const Json& object, std::string_view key, std::string_view kind) {
  const auto found = object.find(key);
  require(found != object.end(), "expected {} in the member \"{}\", found no such member", kind,
          key);
  return *found;
}

}  // namespace

void DataReport::skip(const std::string& message) {
  add_skipped({.skipped = 1, .skipped_of_files = {{file, 1, message}}, .file = file});
}

void DataReport::add_skipped(const DataReport& other) {
  skipped += other.skipped;
  file = other.file;
  for (const SkippedOfFile& more : other.skipped_of_files) {
    // The file that is read now is the last one.
    const auto known =
        std::find_if(skipped_of_files.rbegin(), skipped_of_files.rend(),
                     [&](const SkippedOfFile& one) { return one.file == more.file; });
    if (known == skipped_of_files.rend()) {
      skipped_of_files.push_back(more);
    } else {
      known->count += more.count;
    }
  }
}

std::string DataReport::first_skipped() const {
  if (skipped_of_files.empty()) return {};
  if (skipped_of_files.size() == 1) return skipped_of_files.front().first;
  constexpr std::size_t kMostNamed = 20;
  const std::size_t named = std::min(skipped_of_files.size(), kMostNamed);
  std::vector<std::string> parts;
  std::int64_t rest = skipped;
  for (const SkippedOfFile& one : std::span(skipped_of_files).first(named)) {
    rest -= one.count;
    parts.push_back(fmt::format("{} in {}{}: {}", one.count, one.file,
                                one.count > 1 ? ", the first" : "", one.first));
  }
  if (rest > 0) {
    parts.push_back(fmt::format(
        "{} in {}", rest,
        counted(static_cast<std::int64_t>(skipped_of_files.size() - named), "other file")));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string id_number(const Json& object, std::string_view text, const DataOptions& options) {
  std::string name;
  const Json* id = id_member(object, options, name);
  if (id == nullptr) return {};
  if (id->is_number_integer() || id->is_boolean()) return id->dump();
  if (!needs_text(*id)) return {};
  const std::string written = json_member(text, name);
  return written.starts_with('"') ? "" : written;
}

std::string place_of(const std::string& path, const Origin& origin) {
  std::string place = path;
  if (origin.line > 0) place += fmt::format(":{}", line_and_record(origin.line, origin.record));
  if (!origin.id.empty()) place += fmt::format(": {}", origin.id);
  return place;
}

void read_record(const std::string& place, const DataOptions& options, DataReport& report,
                 const std::function<void()>& read) {
  try {
    read();
    ++report.examples;
  } catch (const Error& error) {
    const bool is_named = error.parts().subject == place;
    const std::string message =
        is_named ? error.what() : fmt::format("{}: {}", place, error.what());
    if (!options.skip_invalid) {
      std::vector<Remedy> remedies = error.remedies();
      remedies.push_back(Remedy::skip_invalid);
      throw Error(message, std::move(remedies));
    }
    report.skip(message);
  }
}

namespace {

/// The texts of the records of a file, where an id is written as it stands there; else none.
std::vector<std::string_view> texts_of_records(std::string& text, const Json& records,
                                               const DataOptions& options) {
  const bool are_needed = std::ranges::any_of(records, [&](const Json& one) {
    std::string name;
    const Json* id = id_member(one, options, name);
    return id != nullptr && needs_text(*id);
  });
  if (!are_needed) {
    text = {};
    return {};
  }
  const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  if (std::string_view(text).substr(begin).starts_with('{')) text = json_member(text, "data");
  return json_elements(text);
}

}  // namespace

namespace {

using TakeObject = std::function<void(const Json& object, const Record&)>;

/// Reads an object of a record, whose text is `text`.
void take_object(const Json& object, std::string_view text, const DataOptions& options,
                 Record& record, const TakeObject& read) {
  require(object.is_object(), "expected a JSON object, found {}", formats::shown(object));
  record.id_number = id_number(object, text, options);
  if (options.id_field.empty()) return read(object, record);
  Json renamed = object;
  call_id(renamed, options);
  read(renamed, record);
}

/// Reads the objects of a list, or of the list "data" of an object.
void read_list(const std::string& path, std::string text, const Json& value,
               const DataOptions& options, DataReport& report, const TakeObject& read) {
  const Json& records = records_of(value, path, options);
  const std::vector<std::string_view> texts = texts_of_records(text, records, options);
  report.file = path;
  Record record;
  for (const Json& object : records) {
    const auto place = static_cast<std::size_t>(record.number);
    record.place = fmt::format("{}: record {}", path, ++record.number);
    read_record(record.place, options, report, [&] {
      take_object(object, texts.empty() ? "" : texts[place], options, record, read);
    });
  }
}

/// Reads JSON lines or another stream of objects. The first one may be all of a file whose format
/// is json, with the records in its list.
void read_stream(JsonValues values, const DataOptions& options, DataReport& report,
                 const TakeObject& read) {
  const std::string path = values.path();
  report.file = path;
  bool may_be_list = options.format == "json";
  Json value;
  std::optional<Error> fault;
  std::string text;
  const auto is_json = [&](const std::string& part) {
    fault.reset();
    try {
      value = formats::parse_json_data(part, "record");
    } catch (const Error& error) {
      fault = error;
    }
    return !fault;
  };
  while (values.next(text, is_json)) {
    if (std::exchange(may_be_list, false) && !fault && holds_list(value, options.text_field)) {
      read_list(path, std::exchange(text, {}), value, options, report, read);
      continue;
    }
    Record record = record_at(values, path);
    read_record(record.place, options, report, [&] {
      if (fault) throw *fault;
      take_object(value, text, options, record, read);
    });
  }
}

}  // namespace

Record record_at(const JsonValues& values, const std::string& path) {
  return {.number = values.number(),
          .place = fmt::format("{}:{}", path, line_and_record(values.number(), values.record())),
          .record = values.record()};
}

bool begins_object(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size())).starts_with('{');
}

void read_objects(const std::string& path, const DataOptions& options, DataReport& report,
                  const std::function<void(const Json&, const Record&)>& read) {
  if (options.format != "json") {
    return read_stream(JsonValues(lines_of(path, options)), options, report, read);
  }
  std::string text = read_whole_text(path, options);
  if (begins_object(text)) {
    TextLines lines(path, std::make_shared<const std::string>(std::move(text)));
    return read_stream(JsonValues(std::move(lines)), options, report, read);
  }
  const Json value = formats::parse_json_data(text, path);
  read_list(path, std::move(text), value, options, report, read);
}

void read_records(const std::string& path, const DataOptions& options, DataReport& report,
                  const std::function<void(const Json&, const Record&)>& read) {
  if (options.format == "json" || options.format == "jsonl") {
    read_objects(path, options, report, read);
    return;
  }
  require(options.format == "csv" || options.format == "tsv", OptionName("data.format"),
          "expected jsonl, json, csv or tsv, found {}", options.format);
  std::vector<std::string> names;
  read_rows(
      path, options, report, [&](const std::vector<std::string>& columns) { names = columns; },
      [&](std::vector<std::string>& fields, const Record& record) {
        Json object = Json::object();
        for (std::size_t i = 0; i < fields.size(); ++i) {
          if (!fields[i].empty()) object[names[i]] = std::move(fields[i]);
        }
        // A row without an id has an empty field.
        if (object.contains(options.id_field)) call_id(object, options);
        read(object, record);
      });
}

void read_rows(const std::string& path, const DataOptions& options, DataReport& report,
               const std::function<void(const std::vector<std::string>& columns)>& begin,
               const std::function<void(std::vector<std::string>& fields, const Record&)>& read) {
  std::vector<std::string> fields, columns;
  text::DelimitedReader reader = open_table(lines_of(path, options), options, columns);
  begin(columns);
  report.file = path;
  std::optional<Error> fault;
  const auto next = [&] {
    fault.reset();
    try {
      return reader.next(fields);
    } catch (const Error& error) {
      // The rows behind a wrong quote can be read.
      if (error.remedies().empty()) throw;
      fault = error;
      return true;
    }
  };
  while (next()) {
    const Record record = {reader.line(), fmt::format("{}:{}", path, reader.line())};
    read_record(record.place, options, report, [&] {
      if (fault) throw Error(fault->reason(), fault->remedies());
      require(fields.size() == columns.size(), "expected {} fields, found {}", columns.size(),
              fields.size());
      read(fields, record);
    });
  }
}

text::DelimitedReader open_table(TextLines lines, const DataOptions& options,
                                 std::vector<std::string>& columns) {
  const std::string path = lines.path();
  text::DelimitedOptions form = {.separator = options.format == "tsv" ? '\t' : ',',
                                 .quotes = options.quotes};
  std::optional<char> named;
  const std::string* first = lines.peek();
  while (first != nullptr && (first->empty() || (!named && text::named_separator(*first)))) {
    if (!first->empty()) named = text::named_separator(*first);
    std::string skipped;
    lines.next(skipped);
    first = lines.peek();
  }
  columns = options.columns;
  if (!options.delimiter.empty()) {
    form.separator = delimiter_of(options);
  } else if (named) {
    form.separator = *named;
  } else if (first != nullptr && columns.size() != 1) {
    // Any character that is not in the line would make one field of it.
    form.separator = text::separator_of(*first, form, options.text_field, columns.size());
  }
  text::DelimitedReader reader(std::move(lines), form);
  if (columns.empty()) {
    require(reader.next(columns), FileName{path}, "expected a header, found an empty file");
  }
  check_names(columns, options, path);
  if (!options.id_field.empty()) {
    static_cast<void>(known_column(columns, options.id_field, "the id", {path, Remedy::id_field}));
  }
  return reader;
}

std::string listed_columns(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 12;
  std::vector<std::string> quoted;
  for (const std::string& name : names) {
    if (quoted.size() == kMost) break;
    quoted.push_back(formats::quote(name));
  }
  if (names.size() > kMost) quoted.push_back(fmt::format("… ({} in all)", names.size()));
  return fmt::format("{}", fmt::join(quoted, ", "));
}

std::size_t column_of(const std::vector<std::string>& columns, const std::string& name) {
  return static_cast<std::size_t>(std::find(columns.begin(), columns.end(), name) -
                                  columns.begin());
}

std::size_t id_column(const std::vector<std::string>& columns, const DataOptions& options) {
  if (!options.id_field.empty()) return column_of(columns, options.id_field);
  const std::size_t usual = column_of(columns, "id");
  return usual < columns.size() ? usual : column_of(columns, "_id");
}

void check_any(const std::string& path, std::size_t examples, const DataReport& report,
               std::string_view what) {
  if (examples > 0) return;
  require(report.skipped > 0, FileName{path}, "expected at least one {}, found none", what);
  fail(FileName{path}, "expected at least one {}, found none: {} left out as broken, the first: {}",
       what, report.skipped == 1 ? "1 record was" : fmt::format("all {} were", report.skipped),
       report.first_skipped());
}

std::size_t known_column(const std::vector<std::string>& columns, const std::string& name,
                         std::string_view what, const ColumnOption& option) {
  const auto count = std::ranges::count(columns, name);
  std::vector<Remedy> remedies;
  if (option.remedy) remedies.push_back(*option.remedy);
  if (columns.size() == 1) remedies.push_back(Remedy::delimiter);
  require(count > 0, std::move(remedies), FileName{option.path},
          "expected {} in the column {}, found the columns {}", what, formats::quote(name),
          listed_columns(columns));
  require(count < 2, FileName{option.path}, "expected one column {}, found {}: the columns are {}",
          formats::quote(name), count, listed_columns(columns));
  return column_of(columns, name);
}

Json read_whole_json(const std::string& path, const DataOptions& options) {
  return formats::parse_json_data(read_whole_text(path, options), path);
}

Json json_if_whole(const std::string& path, const DataOptions& options) {
  const std::string text = read_whole_text(path, options);
  try {
    return formats::parse_json_data(text, path);
  } catch (const Error&) {
    return nullptr;
  }
}

namespace {

std::string bytes_of(const std::string& path, const DataOptions& options) {
  const bool is_kept = options.inputs && is_read_once(path);
  return is_kept ? *options.inputs->bytes_of(path) : read_input(path);
}

}  // namespace

std::string read_whole_text(const std::string& path, const DataOptions& options) {
  return decoded_text(bytes_of(path, options), options.encoding, path);
}

std::string read_one_document(const std::string& path, const DataOptions& options) {
  std::string bytes = bytes_of(path, options);
  FileOutcome outcome = file_contents(bytes, path);
  require(outcome.fault == FileFault::none, FileName{path}, "{}", outcome.error);
  if (outcome.contents) return std::move(outcome.contents->text);
  const DocumentFormat format = document_format_of(path, bytes);
  if (format == DocumentFormat::text) {
    return decoded_text(std::move(bytes), options.encoding, path);
  }
  return document_text(bytes, format, options.encoding, path);
}

void note_left_out(const std::vector<std::string>& files, DataReport& report) {
  if (files.empty()) return;
  constexpr std::size_t kNamed = 3;
  const auto named = std::span(files).first(std::min(files.size(), kNamed));
  report.notes.push_back(fmt::format("left out {} whose names are those of no documents: {}{}",
                                     counted(std::ssize(files), "file"), fmt::join(named, ", "),
                                     named.size() < files.size() ? ", …" : ""));
}

std::vector<std::string> document_files_of(const std::string& path, DataReport& report) {
  FoundFiles found = find_files({path}, {}, [](std::size_t) {});
  require(found.errors.empty(), "{}", found.errors.empty() ? "" : found.errors.front());
  require(!found.files.empty(), FileName{path}, "expected documents in the folder, found none");
  note_left_out(found.others, report);
  return std::move(found.files);
}

TextLines lines_of(const std::string& path, const DataOptions& options) {
  if (!options.inputs || !is_read_once(path)) return TextLines(path, options.encoding);
  return {path, options.inputs->bytes_of(path), options.encoding};
}

std::string read_beginning(const std::string& path, const DataOptions& options, std::size_t most) {
  // Who reads the whole tells what is not in the encoding.
  const TextEncoding silent = {.name = options.encoding.name, .note = {}};
  const bool is_kept = options.inputs && is_read_once(path);
  return decoded_text(is_kept ? options.inputs->bytes_of(path)->substr(0, most)
                              : formats::read_beginning(path, most),
                      silent, path);
}

DataOptions with_inputs(DataOptions options) {
  if (!options.inputs) options.inputs = std::make_shared<KeptInputs>();
  return options;
}

void read_squad(const Json& articles, const std::string& path,
                const std::function<void(const Json& paragraph)>& read) {
  std::int64_t number = 0;
  for (const Json& article : articles) {
    ++number;
    try {
      require(article.is_object(), "expected an object, found {}", formats::shown(article));
      for (const Json& paragraph : list_member(article, "paragraphs")) {
        require(paragraph.is_object(), "expected an object, found {}", formats::shown(paragraph));
        read(paragraph);
      }
    } catch (const Error& error) {
      throw Error(fmt::format("{}: article {}: {}", path, number, error.what()), error.remedies());
    }
  }
}

std::string detect_format(const std::string& path, const DataOptions& options,
                          const std::string& lines) {
  namespace fs = std::filesystem;
  require(is_read_once(path) || fs::exists(path), "{}: expected a file or folder, found none",
          path);
  if (fs::is_directory(path)) return "imdb";
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kEndings = {
      {{".jsonl", "jsonl"},
       {".ndjson", "jsonl"},
       {".csv", "csv"},
       {".tsv", "tsv"},
       {".conll", "conll"},
       {".conllu", "conll"},
       {".iob", "conll"},
       {".iob2", "conll"},
       {".bio", "conll"},
       {".bioes", "conll"},
       {".xml", "hyperpartisan"}}};
  const std::string name = unpacked_name(path);
  for (const auto& [ending, format] : kEndings) {
    if (name.ends_with(ending)) return std::string(format);
  }
  DataOptions silent = options;
  // The reader of the records tells what is not in the encoding.
  silent.encoding.note = {};
  TextLines reader = lines_of(path, silent);
  std::string line;
  while (reader.next(line) && line.find_first_not_of(" \t") == std::string::npos) continue;
  if (is_json_line(line, options)) return "jsonl";
  if (line.starts_with('{') || line.starts_with('[')) return "json";
  if (line.starts_with("<?xml")) return "hyperpartisan";
  if (text::named_separator(line)) return "csv";
  // A table that has no name, as one from a pipe.
  for (const auto& [between, format] : {std::pair(',', "csv"), std::pair('\t', "tsv"),
                                        std::pair(';', "csv"), std::pair('|', "csv")}) {
    if (lines != "conll" && has_column(line, between, options.text_field)) return format;
  }
  require(!lines.empty() && (lines != "fasttext" || line.find("__label__") != std::string::npos),
          {Remedy::format}, "{}: expected a known format of data, found none in its first line",
          path);
  return lines;
}

const std::string& string_member(const Json& object, std::string_view key) {
  const Json& value = member(object, key, "a string");
  require(value.is_string(), "expected a string in the member \"{}\", found {}", key,
          formats::shown(value));
  return value.get_ref<const std::string&>();
}

const std::string& text_member(const Json& object, const DataOptions& options) {
  if (!object.contains(options.text_field)) {
    fail({Remedy::text_field}, "expected a string in the member {}, found no such member among {}",
         formats::quote(options.text_field), listed_columns(names_in(object)));
  }
  return string_member(object, options.text_field);
}

const Json& list_member(const Json& object, std::string_view key) {
  const Json& value = member(object, key, "a list");
  require(value.is_array(), "expected a list in the member \"{}\", found {}", key,
          formats::shown(value));
  return value;
}

std::string scalar_text(const Json& value, std::string_view what) {
  if (value.is_string()) return value.get<std::string>();
  require(formats::is_finite_number(value) || value.is_boolean(),
          "expected a {} as a string or number, found {}", what, formats::shown(value));
  return value.dump();
}

bool is_none(const Json& value) {
  return value.is_null() || (value.is_number_float() && std::isnan(value.get<double>()));
}

std::string id_of(const Json& object) {
  for (const char* key : {"id", "_id"}) {
    const auto found = object.find(key);
    if (found != object.end() && !is_none(*found)) return scalar_text(*found, "id");
  }
  return {};
}

std::string Origin::id_json() const {
  if (!number.empty()) return number;
  return id.empty() ? "null" : Json(id).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Origin origin_of(const Json& object, const Record& record) {
  Origin origin = {.line = record.number,
                   .id = id_of(object),
                   .number = record.id_number,
                   .record = record.record};
  if (!origin.number.empty() && !origin.id.empty()) origin.id = origin.number;
  return origin;
}

}  // namespace longformer::engine
