#include "inputs.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "advice.h"
#include "control_characters.h"
#include "flags.h"
#include "longformer/error.h"
#include "longformer/report.h"
#include "longformer/text.h"

namespace longformer::cli {

namespace {

constexpr std::size_t kReadSize = std::size_t{1} << 16;

constexpr const char* kNothing = "expected text, found nothing";
constexpr const char* kBlank = "expected a document on a line, found blank lines alone";

/// Whether an empty file is a mistake: nobody keeps standard input or a pipe to have nothing in it.
bool may_not_be_empty(const std::string& file) {
  struct stat status = {};
  return file == "-" || (stat(file.c_str(), &status) == 0 && S_ISFIFO(status.st_mode));
}

std::string cannot_read() { return fmt::format("cannot read: {}", std::strerror(errno)); }

struct CloseStream {
  void operator()(std::FILE* stream) const {
    if (stream != stdin) std::fclose(stream);
  }
};

/// Opens the file of a document, or stdin; a null stream leaves the reason in its error.
std::FILE* open_file(Document& document) {
  if (document.file == "-") return stdin;
  struct stat status = {};
  if (stat(document.file.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    document.error = "expected a file, found a folder";
    return nullptr;
  }
  std::FILE* stream = std::fopen(document.file.c_str(), "rb");
  if (stream == nullptr) document.error = cannot_read();
  return stream;
}

/// Whether the file is of a kind that holds no text, which the document then says.
bool is_other_kind(std::string_view beginning, Document& document) {
  document.kind = file_kind(beginning);
  if (document.kind.may_be_text()) return false;
  document.is_no_text = true;
  document.error = fmt::format("expected text, found {}{}{}", document.kind.name,
                               document.kind.advice.empty() ? "" : ": ", document.kind.advice);
  return true;
}

/// All bytes of a file; an error leaves the reason in the document.
std::string bytes_of(std::FILE* stream, Document& document, bool stops_at_binary) {
  std::string bytes;
  std::array<char, kReadSize> buffer;
  std::size_t size = 0;
  while ((size = std::fread(buffer.data(), 1, buffer.size(), stream)) > 0) {
    const bool first = bytes.empty();
    bytes.append(buffer.data(), size);
    // A file that cannot be text may be large.
    if (first && (is_other_kind(bytes, document) || (stops_at_binary && is_binary(bytes)))) break;
  }
  if (std::ferror(stream)) document.error = cannot_read();
  return bytes;
}

void read_whole(Document& document, const InputOptions& options) {
  const std::unique_ptr<std::FILE, CloseStream> stream(open_file(document));
  if (!stream) return;
  const std::string& format = options.format;
  // UTF-16 has bytes 0, and a mark at the beginning only perhaps.
  const bool stops = !format.empty() && !options.encoding.name.starts_with("utf-16");
  std::string bytes = bytes_of(stream.get(), document, stops);
  document.bytes = std::ssize(bytes);
  if (!document.error.empty()) return;
  if (format.empty()) {
    document.text = decoded_text(std::move(bytes), options.encoding, document.label());
    if (document.text.empty() && may_not_be_empty(document.file)) document.error = kNothing;
    return;
  }
  if (bytes.empty() && may_not_be_empty(document.file)) {
    document.error = kNothing;
    return;
  }
  try {
    const DocumentFormat known =
        format == "auto" ? document_format_of(document.file, bytes) : document_format(format);
    document.text = document_text(bytes, known, options.encoding, document.label());
  } catch (const Error& error) {
    document.error = advised(error);
    document.is_no_text = true;
  }
}

/// The message of an error about a file that is named beside it.
std::string without_name(const Error& error, const std::string& file) {
  return error.parts().subject == file ? error.reason() : error.what();
}

/// The string in a field of a JSON object; without one the reason goes into `error`.
std::string string_field(const nlohmann::json& object, const std::string& field,
                         std::string& error) {
  const auto value = object.find(field);
  if (value != object.end() && value->is_string()) return value->get<std::string>();
  error = fmt::format("expected a string in the field {}, found {}", in_quotes(field),
                      value == object.end() ? "no such field" : value->type_name());
  return {};
}

/// Replaces a line of JSON by what is in its fields.
void take_fields(Document& document, const InputOptions& options) {
  const auto object = nlohmann::json::parse(standard_json(document.text), nullptr, false);
  document.text.clear();
  if (!object.is_object()) {
    document.error =
        fmt::format("expected a JSON object with the field {}, found {}", in_quotes(options.field),
                    object.is_discarded() ? "no JSON" : object.type_name());
    return;
  }
  if (const auto id = object.find("id"); id != object.end()) document.id = id->dump();
  if (const auto title = object.find("title"); title != object.end() && title->is_string()) {
    document.title = title->get<std::string>();
  }
  if (!options.question_field.empty()) {
    document.question = string_field(object, options.question_field, document.error);
    if (!document.error.empty()) return;
  }
  document.text = string_field(object, options.field, document.error);
}

}  // namespace

std::string Document::label() const {
  if (line == 0) return file == "-" ? kStandardInput : file;
  return fmt::format("{}:{}", file, line);
}

std::string Document::name() const { return id.empty() || id == "null" ? json().object() : id; }

std::string Document::field() const { return quoted_name(label()); }

JsonLine Document::json() const {
  JsonLine json;
  json.add("file", file);
  if (line > 0) {
    json.add("line", line);
  } else {
    json.add_null("line");
  }
  if (!id.empty()) json.add_json("id", id);
  return json;
}

std::function<void(const std::string&)> encoding_note(Messages& messages) {
  // A data set may be read more than once.
  return [&messages, told = std::make_shared<std::set<std::string>>()](const std::string& note) {
    if (told->insert(note).second) messages.note(note + "; --encoding names another encoding");
  };
}

Inputs::Inputs(const InputOptions& options, Messages& messages) : options_(options) {
  check(options_.encoding);
  options_.encoding.note = encoding_note(messages);
  if (options_.files.empty() && options_.texts.empty()) {
    if (isatty(STDIN_FILENO)) {
      throw UsageError("no input: name files, pipe text in, or give --text");
    }
    options_.files = {"-"};
  }
  bool known = true;
  for (const std::string& file : options_.files) {
    struct stat status = {};
    if (stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
      total_bytes_ += status.st_size;
    } else if (file == "-") {
      known = false;
    }
  }
  for (const std::string& text : options_.texts) {
    total_bytes_ += static_cast<std::int64_t>(text.size());
  }
  total_bytes_ = known ? total_bytes_ / options_.shard.count : 0;
  const bool one_each = !options_.lines && options_.field.empty();
  if (one_each || options_.files.empty()) {
    const auto all = static_cast<std::int64_t>(options_.files.size() + options_.texts.size());
    total_documents_ = options_.shard.is_whole() ? all : 0;
  }
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
  while (lines_ || next_file_ < options_.files.size()) {
    if (lines_) {
      if (next_line(document) && is_ours(document)) return true;
      continue;
    }
    document = Document();
    document.file = options_.files[next_file_++];
    if (!options_.lines && options_.field.empty()) {
      if (!is_ours(document)) continue;
      read_whole(document, options_);
      return true;
    }
    if (!open(document)) return true;
  }
  return false;
}

bool Inputs::open(Document& document) {
  try {
    lines_.emplace(document.file, options_.encoding);
    has_documents_ = false;
  } catch (const Error& error) {
    document.error = without_name(error, document.file);
  }
  return lines_.has_value();
}

bool Inputs::next_line(Document& document) {
  document = Document();
  document.file = options_.files[next_file_ - 1];
  const bool skips_blank = options_.skips_blank_lines || !options_.field.empty();
  try {
    do {
      if (!lines_->next(document.text)) {
        if (!has_documents_ && may_not_be_empty(document.file)) {
          document.error = lines_->number() == 0 ? kNothing : kBlank;
        }
        document.text.clear();
        lines_.reset();
        return !document.error.empty();
      }
    } while (skips_blank && document.text.find_first_not_of(" \t") == std::string::npos);
  } catch (const Error& error) {
    document.error = without_name(error, document.file);
    lines_.reset();
    return true;
  }
  has_documents_ = true;
  document.bytes = lines_->bytes();
  document.line = lines_->number();
  if (!options_.field.empty()) take_fields(document, options_);
  return true;
}

}  // namespace longformer::cli
