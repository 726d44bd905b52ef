#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/input_file.h"
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

/// So many objects of a file may lack the text, one after another from its beginning.
constexpr std::int64_t kMostWithoutText = 20;

constexpr std::array kIdNames = {"id", "_id"};

std::string names_of(const Json& object) {
  Names names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names.empty() ? "none" : engine::listed_columns(names);
}

/// The string in a field of an object. Throws Error.
std::string string_field(const Json& object, const std::string& field) {
  const auto value = object.find(field);
  require(value != object.end(), "expected a string in the field {}, found no such field",
          formats::quote(field));
  require(value->is_string(), "expected a string in the field {}, found {}", formats::quote(field),
          value->type_name());
  return value->get<std::string>();
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

  virtual bool next(TableDocument& document) = 0;
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

/// Reads what is in the fields of an object; an Error is a fault of the object.
void take_object(const Json& object, const FieldNames& fields, TableDocument& document) {
  require(object.is_object(), "expected a JSON object with the field {}, found {}",
          formats::quote(fields.text), object.is_discarded() ? "no JSON" : object.type_name());
  if (!fields.id.empty()) {
    const auto id = object.find(fields.id);
    require(id != object.end(), "expected an id in the field {}, found no such field",
            formats::quote(fields.id));
    document.id = dumped(*id);
  }
  for (const char* name : kIdNames) {
    const auto id = object.find(name);
    if (fields.id.empty() && document.id.empty() && id != object.end()) document.id = dumped(*id);
  }
  if (const auto title = object.find("title"); title != object.end() && title->is_string()) {
    document.title = title->get<std::string>();
  }
  if (!fields.question.empty()) document.question = string_field(object, fields.question);
  document.text = string_field(object, fields.text);
  if (fields.keeps_others) document.others = others_of(object, fields);
}

void take_object(const Json& object, const FieldNames& fields, bool& has_text,
                 TableDocument& document) {
  try {
    take_object(object, fields, document);
    has_text = true;
  } catch (const Error& error) {
    document.error = error.what();
  }
}

class JsonLines final : public RowSource {
 public:
  JsonLines(TextLines lines, FieldNames fields)
      : lines_(std::move(lines)), fields_(std::move(fields)) {}

  bool next(TableDocument& document) override {
    std::string line;
    do {
      if (!lines_.next(line)) return false;
    } while (is_blank(line));
    document.line = lines_.number();
    document.bytes = lines_.bytes();
    const Json object = Json::parse(standard_json(line), nullptr, false);
    // Who talks through a pipe gets an answer to every line.
    const bool lacks_text = !has_text_ && object.is_object() && !object.contains(fields_.text);
    if (lacks_text && ++without_text_ == kMostWithoutText && !is_read_once(lines_.path())) {
      require(false, {Remedy::text_field}, FileName{lines_.path()},
              "expected the field {} in one of the first {} objects, found none: their fields are "
              "{}",
              formats::quote(fields_.text), kMostWithoutText, names_of(object));
    }
    take_object(object, fields_, has_text_, document);
    return true;
  }

 private:
  TextLines lines_;
  FieldNames fields_;
  bool has_text_ = false;
  std::int64_t without_text_ = 0;
};

class JsonList final : public RowSource {
 public:
  JsonList(TextLines lines, FieldNames fields) : fields_(std::move(fields)) {
    std::string text, line;
    std::int64_t bytes = 0;
    while (lines.next(line)) {
      text.append(line).append("\n");
      bytes += lines.bytes();
    }
    list_ = Json::parse(standard_json(text), nullptr, false);
    if (list_.is_object() && list_.contains("data")) {
      Json data = std::move(list_["data"]);
      list_ = std::move(data);
    }
    require(list_.is_array(), FileName{lines.path()},
            "expected a list of objects, or an object with a list \"data\", found {}",
            list_.is_discarded() ? "no JSON" : list_.type_name());
    bytes_of_each_ = list_.empty() ? 0 : bytes / static_cast<std::int64_t>(list_.size());
  }

  bool next(TableDocument& document) override {
    if (next_ == list_.size()) return false;
    const Json object = std::exchange(list_[next_++], Json());
    document.line = static_cast<std::int64_t>(next_);
    document.bytes = bytes_of_each_;
    bool has_text = false;
    take_object(object, fields_, has_text, document);
    return true;
  }

 private:
  FieldNames fields_;
  Json list_;
  std::size_t next_ = 0;
  std::int64_t bytes_of_each_ = 0;
};

class DelimitedRows final : public RowSource {
 public:
  DelimitedRows(const std::string& path, const DataOptions& options, TextLines lines,
                const FieldNames& fields)
      : reader_(engine::open_table(std::move(lines), options, columns_)),
        keeps_others_(fields.keeps_others) {
    using engine::known_column;
    text_ = known_column(columns_, fields.text, "the text", {path, Remedy::text_field});
    question_ = fields.question.empty()
                    ? columns_.size()
                    : known_column(columns_, fields.question, "the question", {path});
    id_ = engine::column_of(columns_, "id");
    if (id_ == columns_.size()) id_ = engine::column_of(columns_, "_id");
    title_ = engine::column_of(columns_, "title");
  }

  bool next(TableDocument& document) override {
    try {
      if (!reader_.next(fields_)) return false;
    } catch (const Error& error) {
      document.line = reader_.line();
      // The rows behind a wrong quote can be read.
      if (error.remedies().empty()) throw;
      document.error = error.reason();
      document.remedies = error.remedies();
      return true;
    }
    document.line = reader_.line();
    document.bytes = reader_.bytes();
    if (fields_.size() != columns_.size()) {
      document.error = fmt::format("expected {} fields, as the header has, found {}",
                                   columns_.size(), fields_.size());
      return true;
    }
    const auto take = [&](std::size_t column) {
      return column < fields_.size() ? std::move(fields_[column]) : std::string();
    };
    // The title may be the text.
    if (title_ < fields_.size()) document.title = fields_[title_];
    if (id_ < fields_.size()) document.id = dumped(Json(fields_[id_]));
    if (question_ < fields_.size()) document.question = fields_[question_];
    if (keeps_others_) document.others = others();
    document.text = take(text_);
    return true;
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

  Names columns_, fields_;
  text::DelimitedReader reader_;
  bool keeps_others_;
  std::size_t text_ = 0, question_ = 0, id_ = 0, title_ = 0;
};

/// The form of a table by its first line that is not blank.
std::string format_by(const std::string& line, const DataOptions& options) {
  const std::size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  if (line.substr(begin).starts_with('[')) return "json";
  if (line.substr(begin).starts_with('{')) return "jsonl";
  if (!options.columns.empty()) return "csv";
  for (const char separator : {',', ';', '\t', '|'}) {
    const Names fields = text::fields_of(line, {.separator = separator, .quotes = options.quotes});
    if (std::find(fields.begin(), fields.end(), options.text_field) != fields.end()) return "csv";
  }
  // Its lines say what is wrong with them.
  return "jsonl";
}

/// The names in a header of CSV, if the lines behind it have as many fields and it has names.
Names header_seen_in(const Names& lines) {
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
    return are_all && lines.size() > 1 ? "JSON lines with the fields " + names_of(first) : "";
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
    } else if (options.format == "json") {
      rows = std::make_unique<JsonList>(std::move(*lines), std::move(fields));
    } else {
      rows = std::make_unique<JsonLines>(std::move(*lines), std::move(fields));
    }
    lines.reset();
  }

  bool next(TableDocument& document) {
    if (has_failed) return false;
    try {
      if (!rows) start();
      if (!rows->next(document)) return false;
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
