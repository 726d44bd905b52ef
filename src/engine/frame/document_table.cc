#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/input_file.h"
#include "core/words.h"
#include "engine/frame/data_file.h"
#include "formats/json.h"
#include "longformer/report.h"
#include "longformer/tables.h"
#include "text/delimited.h"
#include "text/unicode.h"

namespace longformer {
namespace {

using Json = nlohmann::json;
using Names = std::vector<std::string>;

/// So many rows of a file are looked at before the first one is handed out.
constexpr std::size_t kLookedAt = 20;
/// Fewer of them with the same fault are faults of the rows, not of the file.
constexpr std::size_t kFewest = 3;

constexpr std::array kIdNames = {"id", "_id"};

/// Faults that a file has in every row where it has them at all.
enum class RowFault { none, no_json, no_object, no_text, no_id, no_question, fields, quotes };

/// A row with what its fault is about: the names of its fields, or their number.
struct TableRow {
  TableDocument document = {};
  RowFault fault = RowFault::none;
  Names names = {};
  std::size_t fields = 0;
};

std::string listed(const Names& names) {
  return names.empty() ? "none" : engine::listed_columns(names);
}

Names names_in(const Json& object) {
  Names names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

std::string dumped(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t") == std::string_view::npos;
}

/// Rows of one form.
class RowSource {
 public:
  RowSource() = default;
  virtual ~RowSource() = default;
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;

  virtual bool next(TableRow& row) = 0;
  /// The fault that all of the first rows have, as a fault of the file; `count` rows were read.
  virtual Error fault_of(const TableRow& first, std::size_t count) const = 0;
};

/// The fields that become a document.
struct FieldNames {
  std::string text, id, question;
  bool keeps_others = false;
};

/// The fields beside text and id.
std::string others_of(Json object, const FieldNames& fields) {
  object.erase(fields.text);
  for (const char* name : kIdNames) {
    if (fields.id.empty()) object.erase(name);
  }
  if (!fields.id.empty()) object.erase(fields.id);
  return dumped(object);
}

/// Throws Error for a fault of a row.
void refuse_row(TableRow& row, RowFault fault, const std::string& reason) {
  row.fault = fault;
  throw Error(reason);
}

/// The string in a field of an object.
std::string string_field(const Json& object, const std::string& field, RowFault fault,
                         TableRow& row) {
  const auto value = object.find(field);
  if (value == object.end()) {
    refuse_row(row, fault,
               fmt::format("expected a string in the field {}, found no such field",
                           formats::quote(field)));
  }
  require(value->is_string(), "expected a string in the field {}, found {}", formats::quote(field),
          value->type_name());
  return value->get<std::string>();
}

/// Reads what is in the fields of an object, whose text is `json`.
void take_fields(const Json& object, std::string_view json, const FieldNames& fields,
                 TableRow& row) {
  TableDocument& document = row.document;
  if (!object.is_object()) {
    refuse_row(row, object.is_discarded() ? RowFault::no_json : RowFault::no_object,
               fmt::format("expected a JSON object with the field {}, found {}",
                           formats::quote(fields.text),
                           object.is_discarded() ? std::string("no JSON") : object.type_name()));
  }
  // A number may have more digits than a parser keeps.
  const auto id_of = [&](const Json& value, const std::string& name) {
    return value.is_string() ? dumped(value) : json_member(json, name);
  };
  if (!fields.id.empty()) {
    const auto id = object.find(fields.id);
    if (id == object.end()) {
      refuse_row(row, RowFault::no_id,
                 fmt::format("expected an id in the field {}, found no such field",
                             formats::quote(fields.id)));
    }
    document.id = id_of(*id, fields.id);
  }
  for (const char* name : kIdNames) {
    const auto id = object.find(name);
    if (fields.id.empty() && document.id.empty() && id != object.end()) {
      document.id = id_of(*id, name);
    }
  }
  if (const auto title = object.find("title"); title != object.end() && title->is_string()) {
    document.title = title->get<std::string>();
  }
  if (!fields.question.empty()) {
    document.question = string_field(object, fields.question, RowFault::no_question, row);
  }
  document.text = string_field(object, fields.text, RowFault::no_text, row);
  if (fields.keeps_others) document.others = others_of(object, fields);
}

/// A fault becomes the error of the row. The text of the object is `json`.
void take_object(const Json& object, std::string_view json, const FieldNames& fields,
                 TableRow& row) {
  try {
    take_fields(object, json, fields, row);
  } catch (const Error& error) {
    row.document.error = error.what();
    if (object.is_object()) row.names = names_in(object);
  }
}

/// The fault of all objects of a file.
Error fault_of_objects(const std::string& path, const FieldNames& fields, const TableRow& first,
                       std::size_t count) {
  const auto lacks = [&](const std::string& field, const char* use, std::vector<Remedy> remedies) {
    return Error({.subject = path,
                  .reason = fmt::format("expected the field {}{} in one of the first {} objects, "
                                        "found none: their fields are {}",
                                        formats::quote(field), use, count, listed(first.names)),
                  .remedies = std::move(remedies)});
  };
  if (first.fault == RowFault::no_text) return lacks(fields.text, "", {Remedy::text_field});
  if (first.fault == RowFault::no_id) return lacks(fields.id, " of the id", {Remedy::id_field});
  if (first.fault == RowFault::no_question) return lacks(fields.question, " of the question", {});
  return Error({.subject = path,
                .reason = fmt::format("expected JSON objects with the field {}, found none in its "
                                      "first {} records",
                                      formats::quote(fields.text), count)});
}

/// The objects of one JSON list, whose text is held whole.
class JsonList final : public RowSource {
 public:
  JsonList(std::string path, std::string text, std::int64_t bytes, FieldNames fields)
      : path_(std::move(path)), fields_(std::move(fields)), text_(std::move(text)) {
    const Json value = Json::parse(text_, nullptr, false);
    const bool has_data = engine::holds_list(value, fields_.text);
    require(has_data || value.is_array(), FileName{path_},
            "expected a list of objects, or an object with a list \"data\", found {}",
            value.is_discarded() ? "no JSON" : value.type_name());
    if (has_data) text_ = json_member(text_, "data");
    records_ = json_elements(text_);
    bytes_of_each_ = records_.empty() ? 0 : bytes / static_cast<std::int64_t>(records_.size());
  }

  bool next(TableRow& row) override {
    if (next_ == records_.size()) return false;
    const std::string_view record = records_[next_++];
    row.document.line = static_cast<std::int64_t>(next_);
    row.document.bytes = bytes_of_each_;
    take_object(Json::parse(record, nullptr, false), record, fields_, row);
    return true;
  }

  Error fault_of(const TableRow& first, std::size_t count) const override {
    return fault_of_objects(path_, fields_, first, count);
  }

 private:
  std::string path_;
  FieldNames fields_;
  /// The list, and where its objects are.
  std::string text_;
  std::vector<std::string_view> records_;
  std::size_t next_ = 0;
  std::int64_t bytes_of_each_ = 0;
};

std::unique_ptr<RowSource> list_of(TextLines lines, FieldNames fields) {
  std::string text, line;
  std::int64_t bytes = 0;
  while (lines.next(line)) {
    text.append(line).append("\n");
    bytes += lines.bytes();
  }
  return std::make_unique<JsonList>(lines.path(), standard_json(text), bytes, std::move(fields));
}

/// JSON lines and other streams of objects.
class JsonStream final : public RowSource {
 public:
  /// `is_named`: the name or the options say that there is an object on each line. Else the first
  /// object may be all of the file, with a list of objects.
  JsonStream(TextLines lines, FieldNames fields, bool is_named)
      : fields_(std::move(fields)), is_named_(is_named) {
    if (const std::string* first = lines.peek()) first_ = *first;
    // Who talks through a pipe gets an answer to every line.
    if (is_named && !is_read_once(lines.path())) check_form(lines.path());
    values_.emplace(std::move(lines));
  }

  bool next(TableRow& row) override {
    if (list_ && list_->next(row)) return true;
    Json value;
    std::string json, text;
    const auto is_json = [&](const std::string& part) {
      json = standard_json(part);
      value = Json::parse(json, nullptr, false);
      return !value.is_discarded();
    };
    if (!values_->next(text, is_json)) return false;
    if (!std::exchange(is_begun_, true) && !is_named_ && engine::holds_list(value, fields_.text)) {
      list_.emplace(values_->path(), std::move(json), values_->bytes(), fields_);
      return next(row);
    }
    row.document.line = values_->number();
    row.document.record = values_->record();
    row.document.bytes = values_->bytes();
    take_object(value, json, fields_, row);
    return true;
  }

  Error fault_of(const TableRow& first, std::size_t count) const override {
    const std::string& path = values_->path();
    if (first.fault != RowFault::no_json) return fault_of_objects(path, fields_, first, count);
    const std::string wanted =
        is_named_ ? "a JSON object on each line"
                  : fmt::format(
                        "a table: JSON objects on lines or in a list, or CSV with the "
                        "column {}",
                        formats::quote(fields_.text));
    return Error(
        {.subject = path,
         .reason = fmt::format("expected {}, found no JSON in the first {} lines, which begin {}",
                               wanted, count, formats::quote(first_)),
         .remedies = {Remedy::text_field}});
  }

 private:
  /// Throws Error for a list.
  void check_form(const std::string& path) const {
    const std::size_t begin = std::min(first_.find_first_not_of(" \t"), first_.size());
    require(!std::string_view(first_).substr(begin).starts_with('['), FileName{path},
            "expected a JSON object on each line, found a list, which begins {}: name the file "
            ".json and give --text-field, or write its objects on lines (jq -c '.[]')",
            formats::quote(first_));
  }

  std::optional<JsonValues> values_;
  std::optional<JsonList> list_;
  FieldNames fields_;
  bool is_named_, is_begun_ = false;
  std::string first_;
};

class DelimitedRows final : public RowSource {
 public:
  DelimitedRows(const std::string& path, const DataOptions& options, TextLines lines,
                const FieldNames& fields)
      : path_(path),
        reader_(engine::open_table(std::move(lines), options, columns_)),
        keeps_others_(fields.keeps_others) {
    using engine::known_column;
    text_ = known_column(columns_, fields.text, "the text", {path, Remedy::text_field});
    question_ = fields.question.empty()
                    ? columns_.size()
                    : known_column(columns_, fields.question, "the question", {path});
    id_ = engine::id_column(columns_, options);
    title_ = engine::column_of(columns_, "title");
    has_header_ = options.columns.empty();
  }

  bool next(TableRow& row) override {
    TableDocument& document = row.document;
    try {
      if (!reader_.next(fields_)) return false;
    } catch (const Error& error) {
      document.line = reader_.line();
      // The rows behind a wrong quote can be read.
      if (error.remedies().empty()) throw;
      document.error = error.reason();
      document.remedies = error.remedies();
      row.fault = RowFault::quotes;
      return true;
    }
    document.line = reader_.line();
    document.bytes = reader_.bytes();
    if (fields_.size() != columns_.size()) {
      document.error = fmt::format("expected {} fields, as {}, found {}", columns_.size(), source(),
                                   fields_.size());
      row.fault = RowFault::fields;
      row.fields = fields_.size();
      return true;
    }
    const auto take = [&](std::size_t column) {
      return column < fields_.size() ? fields_[column] : std::string();
    };
    // A column may be the text and something else.
    document.title = take(title_);
    if (id_ < fields_.size()) document.id = dumped(Json(fields_[id_]));
    document.question = take(question_);
    if (keeps_others_) document.others = others();
    document.text = std::move(fields_[text_]);
    return true;
  }

  Error fault_of(const TableRow& first, std::size_t count) const override {
    if (first.fault == RowFault::quotes) {
      return Error({.subject = fmt::format("{}:{}", path_, first.document.line),
                    .reason = fmt::format("{}, and so in each of the first {} rows",
                                          first.document.error, count),
                    .remedies = first.document.remedies});
    }
    return Error({.subject = path_,
                  .reason = fmt::format("expected {} in each row, as {} ({}), found others in all "
                                        "of the first {} rows, {} in the first",
                                        counted(std::ssize(columns_), "field"), source(),
                                        engine::listed_columns(columns_), count, first.fields),
                  .remedies = {Remedy::delimiter, Remedy::quotes, Remedy::columns}});
  }

 private:
  std::string others() const {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const bool is_other = i != text_ && i != id_ && !columns_[i].empty();
      if (is_other) object[columns_[i]] = fields_[i];
    }
    return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }

  std::string_view source() const { return has_header_ ? "the header has" : "there are columns"; }

  std::string path_;
  Names columns_, fields_;
  text::DelimitedReader reader_;
  bool keeps_others_;
  std::size_t text_ = 0, question_ = 0, id_ = 0, title_ = 0;
  bool has_header_ = true;
};

/// The form of a table by its first line that is not blank.
std::string format_by(const std::string& line, const DataOptions& options) {
  const std::size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  if (line.substr(begin).starts_with('[') || line.substr(begin).starts_with('{')) return "json";
  if (!options.columns.empty() || text::named_separator(line)) return "csv";
  for (const char separator : {',', ';', '\t', '|'}) {
    const Names fields = text::fields_of(line, {.separator = separator, .quotes = options.quotes});
    if (std::find(fields.begin(), fields.end(), options.text_field) != fields.end()) return "csv";
  }
  return {};
}

/// The names in a header of CSV, if the lines behind it have as many fields and it has names.
Names header_seen_in(Names lines) {
  if (!lines.empty() && text::named_separator(lines.front())) lines.erase(lines.begin());
  if (lines.size() < 3) return {};
  const text::DelimitedOptions usual = {};
  const char separator = text::separator_of(lines.front(), usual, {});
  const text::DelimitedOptions options = {.separator = separator, .quotes = true};
  Names header = text::fields_of(lines.front(), options);
  const auto is_name = [](const std::string& field) {
    constexpr std::size_t kLongest = 40;
    return !is_blank(field) && field.size() <= kLongest && !field.ends_with('.') &&
           std::ranges::count(field, ' ') < 4;
  };
  const bool are_names = std::ranges::all_of(header, is_name);
  const bool differ = std::set<std::string>(header.begin(), header.end()).size() == header.size();
  if (header.size() < 2 || !are_names || !differ) return {};
  const bool are_rows = std::all_of(lines.begin() + 1, lines.end(), [&](const std::string& line) {
    // A quote that is open goes on in the next line.
    return line.find('"') != std::string::npos ||
           text::fields_of(line, options).size() == header.size();
  });
  return are_rows ? header : Names();
}

}  // namespace

std::string table_format_of(const std::string& file) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kEndings = {
      {{".csv", "csv"}, {".tsv", "tsv"}, {".jsonl", "jsonl"}, {".ndjson", "jsonl"}}};
  const std::string name = text::ascii_lower(unpacked_name(file));
  for (const auto& [ending, format] : kEndings) {
    if (name.ends_with(ending)) return std::string(format);
  }
  return {};
}

std::string table_seen_in(std::string_view text) {
  constexpr std::size_t kLookedAt = std::size_t{1} << 16, kLines = 6;
  text = text.substr(0, kLookedAt);
  Names lines;
  for (std::size_t at = 0; at < text.size() && lines.size() < kLines;) {
    const std::size_t end = text.find('\n', at);
    // A line that is cut shows nothing.
    if (end == std::string_view::npos && text.size() == kLookedAt) break;
    std::string line(text.substr(at, end - at));
    if (line.ends_with('\r')) line.pop_back();
    if (!is_blank(line)) lines.push_back(std::move(line));
    at = end == std::string_view::npos ? text.size() : end + 1;
  }
  if (lines.empty()) return {};
  const auto object_of = [](const std::string& line) {
    const Json value = Json::parse(line, nullptr, false);
    return value.is_object() ? value : Json();
  };
  if (const Json first = object_of(lines.front()); first.is_object()) {
    const bool are_all = std::ranges::all_of(
        lines, [&](const std::string& line) { return object_of(line).is_object(); });
    return are_all && lines.size() > 1 ? "JSON lines with the fields " + listed(names_in(first))
                                       : "";
  }
  Names header = header_seen_in(lines);
  for (std::string& name : header) name = formats::quote(name);
  return header.empty() ? "" : fmt::format("CSV with the columns {}", fmt::join(header, ", "));
}

struct DocumentTable::Implementation {
  Implementation(const std::string& name, const DataOptions& given, std::string question,
                 bool keeps)
      : path(name),
        options(given),
        question_field(std::move(question)),
        keeps_others(keeps),
        lines(std::in_place, name, given.encoding) {
    if (options.format.empty()) options.format = table_format_of(path);
  }

  void start() {
    const std::string* line = lines->peek();
    while (line != nullptr && is_blank(*line)) {
      std::string blank;
      lines->next(blank);
      line = lines->peek();
    }
    read_lines = lines->number();
    if (options.format.empty() && line != nullptr) options.format = format_by(*line, options);
    FieldNames fields = {.text = options.text_field,
                         .id = options.id_field,
                         .question = question_field,
                         .keeps_others = keeps_others};
    if (options.format == "csv" || options.format == "tsv") {
      rows = std::make_unique<DelimitedRows>(path, options, std::move(*lines), fields);
      has_header = options.columns.empty();
    } else if (options.format == "json" && (line == nullptr || !engine::begins_object(*line))) {
      rows = list_of(std::move(*lines), std::move(fields));
    } else {
      const bool is_named = options.format == "jsonl";
      rows = std::make_unique<JsonStream>(std::move(*lines), std::move(fields), is_named);
    }
    lines.reset();
  }

  /// Reads the first rows of a file, which tell whether all rows have one fault. Throws Error.
  void look_ahead() {
    bool has_fault = true;
    while (has_fault && ahead.size() < kLookedAt) {
      TableRow row;
      try {
        if (!rows->next(row)) break;
      } catch (const Error&) {
        failure = std::current_exception();
        break;
      }
      ahead.push_back(std::move(row));
      const RowFault fault = ahead.back().fault;
      has_fault = fault != RowFault::none && fault == ahead.front().fault;
    }
    if (has_fault && ahead.size() >= kFewest) throw rows->fault_of(ahead.front(), ahead.size());
  }

  bool next_row(TableDocument& document) {
    if (!rows) {
      start();
      if (!is_read_once(path)) look_ahead();
    }
    TableRow row;
    if (!ahead.empty()) {
      row = std::move(ahead.front());
      ahead.pop_front();
    } else if (failure) {
      std::rethrow_exception(std::exchange(failure, nullptr));
    } else if (!rows->next(row)) {
      return false;
    }
    document = std::move(row.document);
    return true;
  }

  bool next(TableDocument& document) {
    if (has_failed) return false;
    try {
      if (!next_row(document)) return false;
    } catch (const Error&) {
      has_failed = true;
      throw;
    }
    read_lines = std::max(read_lines, document.line);
    return true;
  }

  std::string path;
  DataOptions options;
  std::string question_field;
  bool keeps_others;
  std::optional<TextLines> lines;
  std::unique_ptr<RowSource> rows;
  /// Rows that were read to look at them, and what ended that.
  std::deque<TableRow> ahead;
  std::exception_ptr failure;
  std::int64_t read_lines = 0;
  bool has_failed = false, has_header = false;
};

DocumentTable::DocumentTable(const std::string& path, const DataOptions& options,
                             std::string question_field, bool keeps_others)
    : implementation_(std::make_unique<Implementation>(path, options, std::move(question_field),
                                                       keeps_others)) {}
DocumentTable::~DocumentTable() = default;
DocumentTable::DocumentTable(DocumentTable&&) noexcept = default;
DocumentTable& DocumentTable::operator=(DocumentTable&&) noexcept = default;

bool DocumentTable::next(TableDocument& document) {
  document = TableDocument();
  return implementation_->next(document);
}

std::int64_t DocumentTable::lines() const { return implementation_->read_lines; }
bool DocumentTable::has_header() const { return implementation_->has_header; }

}  // namespace longformer
