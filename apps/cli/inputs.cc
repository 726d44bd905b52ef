#include "inputs.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "advice.h"
#include "control_characters.h"
#include "flags.h"
#include "longformer/document_files.h"
#include "longformer/error.h"
#include "longformer/files.h"
#include "longformer/report.h"
#include "longformer/text.h"

namespace longformer::cli {

namespace {

constexpr const char* kNothing = "expected text, found nothing";
constexpr const char* kBlank = "expected a document on a line, found blank lines alone";
constexpr const char* kHeader = "expected a row behind the header, found none";

/// Whether an empty file is a mistake: nobody keeps standard input or a pipe to have nothing in it.
bool may_not_be_empty(const std::string& file) {
  struct stat status = {};
  return file == "-" || (stat(file.c_str(), &status) == 0 && S_ISFIFO(status.st_mode));
}

/// Bytes of an ordinary file.
std::optional<std::int64_t> size_of(const std::string& file) {
  struct stat status = {};
  const bool is_file = stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode);
  return is_file ? std::optional(std::int64_t{status.st_size}) : std::nullopt;
}

/// Whether the file is of a kind that holds no text, which the document then says.
bool is_other_kind(std::string_view beginning, Document& document) {
  document.kind = file_kind(beginning);
  if (document.kind.may_be_text() || may_be_document_file(beginning)) return false;
  document.is_no_text = true;
  document.error = fmt::format("expected text, found {}{}{}", document.kind.name,
                               document.kind.advice.empty() ? "" : ": ", document.kind.advice);
  return true;
}

/// The message of an error about a file that is named beside it, with what would help.
std::string without_name(const Error& error, const Document& document) {
  const std::string& subject = error.parts().subject;
  const bool is_named = subject == document.file || subject == document.label();
  return advised(is_named ? error.reason() : error.what(), error.remedies());
}

}  // namespace

bool InputOptions::is_table(const std::string& file) const {
  if (has_no_tables) return false;
  if (are_tables) return true;
  // One of the formats of documents may be named.
  const bool may_be = !lines && (format.empty() || format == "auto");
  return may_be && file != "-" && !table_format_of(file).empty();
}

std::string Document::label() const {
  if (line == 0) return file == "-" ? kStandardInput : file;
  return fmt::format("{}:{}", file, line_and_record(line, record));
}

std::string Document::name() const { return has_id() ? id : json().object(); }

bool Document::has_id() const { return !id.empty() && id != "null" && id != "\"\""; }

std::string Document::field() const { return quoted_name(label()); }

JsonLine Document::json() const {
  JsonLine json;
  json.add("file", file);
  if (line > 0) {
    json.add("line", line);
  } else {
    json.add_null("line");
  }
  if (record > 0) json.add("record", record);
  if (!id.empty()) json.add_json("id", id);
  return json;
}

std::function<void(const std::string&)> encoding_note(Messages& messages) {
  // A data set may be read more than once.
  return [&messages, told = std::make_shared<std::set<std::string>>()](const std::string& note) {
    if (told->insert(note).second) messages.note(note + "; --encoding names another encoding");
  };
}

Inputs::Inputs(const InputOptions& options, Messages& messages)
    : options_(options), messages_(messages), unread_(messages) {
  check(options_.encoding());
  options_.encoding().note = encoding_note(messages);
  if (options_.files.empty() && options_.texts.empty()) {
    if (isatty(STDIN_FILENO)) {
      throw UsageError("no input: name files, pipe text in, or give --text");
    }
    options_.files = {"-"};
  }
  look_into_folders();
  bool known = true;
  for (const std::string& file : options_.files) {
    total_bytes_ += size_of(file).value_or(0);
    known = known && file != "-";
  }
  for (const std::string& text : options_.texts) {
    total_bytes_ += static_cast<std::int64_t>(text.size());
  }
  total_bytes_ = known ? total_bytes_ / options_.shard.count : 0;
  const bool one_each =
      !options_.lines && std::ranges::none_of(options_.files, [&](const std::string& file) {
        return options_.is_table(file);
      });
  if (one_each || options_.files.empty()) {
    const auto all = static_cast<std::int64_t>(options_.files.size() + options_.texts.size());
    total_documents_ = options_.shard.is_whole() ? all : 0;
  }
}

void Inputs::look_into_folders() {
  // Lines of questions are no documents, so a folder has none of them.
  if (options_.are_json) return;
  FoundFiles found = find_files(options_.files, {}, [](std::size_t) {});
  if (found.folders.empty()) return;
  for (const std::string& error : found.errors) messages_.error(error);
  if (found.files.empty() && options_.texts.empty() && found.errors.empty()) {
    throw Error(fmt::format("{}: expected a folder with documents, found none: {}",
                            fmt::join(found.folders, ", "), fmt::join(document_patterns(), " ")));
  }
  options_.files = std::move(found.files);
  options_.from_folders = std::move(found.from_folders);
  options_.others = std::move(found.others);
}

bool Inputs::is_left_out(Document& document) {
  if (document.error.empty()) return false;
  const UnreadFile file = {.name = document.file,
                           .error = document.error,
                           .kind = document.kind,
                           .fault = document.fault};
  const bool leaves_out = document.is_no_text && options_.from_folders.contains(document.file) &&
                          UnreadFiles::is_left_out(file);
  if (leaves_out) {
    unread_.leave_out(file);
    ++left_out_;
    left_out_bytes_ += document.bytes;
  } else {
    document.error = unread_.count(file);
  }
  return leaves_out;
}

bool Inputs::is_ours(const Document& document) const {
  const bool is_file = document.line == 0 && !document.error.empty();
  return is_file || options_.shard.is_whole() || options_.shard.has(document.name());
}

bool Inputs::next(Document& document) {
  document = Document();
  while (next_text_ < options_.texts.size()) {
    document.file = "--text";
    document.text = options_.texts[next_text_++];
    document.bytes = std::ssize(document.text);
    document.line = static_cast<std::int64_t>(next_text_);
    if (is_ours(document)) return true;
  }
  while (lines_ || values_ || table_ || next_file_ < options_.files.size()) {
    if (lines_ || values_ || table_) {
      document = Document();
      document.file = options_.files[next_file_ - 1];
      const bool is_one = lines_    ? next_line(document)
                          : values_ ? next_value(document)
                                    : next_row(document);
      if (is_one && is_ours(document)) return true;
      continue;
    }
    document = Document();
    document.file = options_.files[next_file_++];
    if (!options_.lines && !options_.is_table(document.file)) {
      if (!is_ours(document)) continue;
      read_whole(document);
      if (is_left_out(document)) continue;
      document.left_out = std::exchange(left_out_, 0);
      document.left_out_bytes = std::exchange(left_out_bytes_, 0);
      return true;
    }
    if (!open(document)) return true;
  }
  if (!std::exchange(has_told_, true)) unread_.tell(options_.others);
  return false;
}

bool Inputs::open(Document& document) {
  has_documents_ = false;
  try {
    if (options_.is_table(document.file)) {
      table_.emplace(document.file, options_.table, options_.question_field, options_.keeps_fields);
    } else if (options_.are_json) {
      values_.emplace(TextLines(document.file, options_.encoding()));
    } else {
      lines_.emplace(document.file, options_.encoding());
    }
  } catch (const Error& error) {
    document.error = without_name(error, document);
    return false;
  }
  return true;
}

bool Inputs::is_wrong_end(Document& document, const char* nothing) {
  if (!has_documents_ && may_not_be_empty(document.file)) document.error = nothing;
  document.text.clear();
  lines_.reset();
  values_.reset();
  table_.reset();
  return !document.error.empty();
}

bool Inputs::next_line(Document& document) {
  try {
    if (!lines_->next(document.text)) {
      return is_wrong_end(document, lines_->number() == 0 ? kNothing : kBlank);
    }
    document.line = lines_->number();
    document.bytes = lines_->bytes();
  } catch (const Error& error) {
    document.error = without_name(error, document);
    lines_.reset();
    return true;
  }
  has_documents_ = true;
  return true;
}

bool Inputs::next_value(Document& document) {
  try {
    if (!values_->next(document.text, is_json_value)) {
      return is_wrong_end(document, values_->lines() == 0 ? kNothing : kBlank);
    }
    document.line = values_->number();
    document.record = values_->record();
    document.bytes = values_->bytes();
  } catch (const Error& error) {
    document.error = without_name(error, document);
    values_.reset();
    return true;
  }
  has_documents_ = true;
  return true;
}

bool Inputs::next_row(Document& document) {
  TableDocument row;
  try {
    if (!table_->next(row)) {
      const char* blank = table_->has_header() ? kHeader : kBlank;
      return is_wrong_end(document, table_->lines() == 0 ? kNothing : blank);
    }
  } catch (const Error& error) {
    document.error = without_name(error, document);
    table_.reset();
    return true;
  }
  has_documents_ = true;
  document.line = row.line;
  document.record = row.record;
  document.bytes = row.bytes;
  document.text = std::move(row.text);
  document.question = std::move(row.question);
  document.title = std::move(row.title);
  document.id = std::move(row.id);
  document.metadata = std::move(row.others);
  document.error = advised(std::move(row.error), row.remedies);
  return true;
}

void Inputs::read_whole(Document& document) {
  const std::string& format = options_.format;
  // UTF-16 has bytes 0, and a mark at the beginning only perhaps.
  const bool stops = !format.empty() && !options_.encoding().name.starts_with("utf-16");
  std::string bytes;
  try {
    // A file that cannot be text may be large.
    bytes = input_bytes(document.file, [&](std::string_view beginning) {
      return is_other_kind(beginning, document) ||
             (stops && !may_be_document_file(beginning) && is_binary(beginning));
    });
  } catch (const Error& error) {
    document.error = without_name(error, document);
  }
  document.bytes = size_of(document.file).value_or(std::ssize(bytes));
  if (!document.error.empty()) return;
  if (bytes.empty() && may_not_be_empty(document.file)) {
    document.error = kNothing;
    return;
  }
  try {
    FileOutcome outcome = file_contents(bytes, document.file);
    document.fault = outcome.fault;
    document.is_no_text = outcome.fault != FileFault::none;
    document.error = std::move(outcome.error);
    if (outcome.contents) {
      document.text = std::move(outcome.contents->text);
      document.places = std::move(outcome.contents->places);
    }
    if (document.is_no_text || outcome.contents) return;
    const DocumentFormat known = format == "auto"
                                     ? document_format_of(document.file, bytes)
                                     : document_format(format.empty() ? "text" : format);
    document.text = format.empty()
                        ? decoded_text(std::move(bytes), options_.encoding(), document.label())
                        : document_text(bytes, known, options_.encoding(), document.label());
    if (known == DocumentFormat::text) note_table(document);
  } catch (const Error& error) {
    document.error = advised(error);
    document.is_no_text = true;
  }
}

void Inputs::note_table(const Document& document) {
  if (has_noted_ || options_.has_no_tables) return;
  const std::string seen = table_seen_in(document.text);
  if (seen.empty()) return;
  has_noted_ = true;
  messages_.note(
      fmt::format("{}: read as one text, and looks like {}: --text-field NAME reads its rows",
                  document.label(), shortened(seen)));
}

}  // namespace longformer::cli
