#include "inputs.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "flags.h"
#include "longformer/document_text.h"
#include "longformer/error.h"

namespace longformer::cli {

namespace {

constexpr std::size_t kReadSize = std::size_t{1} << 16;

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

/// Puts the text in the place of the bytes of the file.
void take_text(Document& document, const std::string& format) {
  try {
    document.text = document_text(
        document.text, format == "auto" ? document_format_of(document.file, document.text)
                                        : document_format(format));
  } catch (const Error& error) {
    document.error = error.what();
    document.is_no_text = true;
  }
}

void read_whole(Document& document, const std::string& format) {
  const std::unique_ptr<std::FILE, CloseStream> stream(open_file(document));
  if (!stream) return;
  std::array<char, kReadSize> buffer;
  std::size_t size = 0;
  while ((size = std::fread(buffer.data(), 1, buffer.size(), stream.get())) > 0) {
    const bool first = document.text.empty();
    document.text.append(buffer.data(), size);
    // What cannot be text may be large.
    if (first && !format.empty() && is_binary(document.text)) break;
  }
  if (std::ferror(stream.get())) document.error = cannot_read();
  if (document.error.empty() && !format.empty()) take_text(document, format);
}

/// The string in a field of a JSON object; without one the reason goes into `error`.
std::string string_field(const nlohmann::json& object, const std::string& field,
                         std::string& error) {
  const auto value = object.find(field);
  if (value != object.end() && value->is_string()) return value->get<std::string>();
  error = fmt::format("expected a string in the field '{}', found {}", field,
                      value == object.end() ? "no such field" : value->type_name());
  return {};
}

/// Replaces a line of JSON by what is in its fields.
void take_fields(Document& document, const InputOptions& options) {
  const auto object = nlohmann::json::parse(document.text, nullptr, false);
  document.text.clear();
  if (!object.is_object()) {
    document.error =
        fmt::format("expected a JSON object with the field '{}', found none", options.field);
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

void Inputs::CloseFile::operator()(std::FILE* file) const {
  if (file != stdin) std::fclose(file);
}

Inputs::Inputs(const InputOptions& options) : options_(options) {
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
  if (!known) total_bytes_ = 0;
  const bool one_each = !options_.lines && options_.field.empty();
  if (one_each || options_.files.empty()) {
    total_documents_ = static_cast<std::int64_t>(options_.files.size() + options_.texts.size());
  }
}

bool Inputs::next(Document& document) {
  document = Document();
  if (next_text_ < options_.texts.size()) {
    document.file = "--text";
    document.text = options_.texts[next_text_++];
    document.line = static_cast<std::int64_t>(next_text_);
    return true;
  }
  while (open_ || next_file_ < options_.files.size()) {
    if (open_) {
      if (next_line(document)) return true;
      continue;
    }
    document.file = options_.files[next_file_++];
    if (!options_.lines && options_.field.empty()) {
      read_whole(document, options_.format);
      return true;
    }
    open_.reset(open_file(document));
    line_ = 0;
    if (!open_) return true;
  }
  return false;
}

bool Inputs::next_line(Document& document) {
  document = Document();
  document.file = options_.files[next_file_ - 1];
  char* line = nullptr;
  std::size_t capacity = 0;
  errno = 0;
  const ssize_t size = getline(&line, &capacity, open_.get());
  const std::unique_ptr<char, decltype(&std::free)> owner(line, &std::free);
  if (size < 0) {
    const bool failed = std::ferror(open_.get()) != 0;
    if (failed) document.error = cannot_read();
    open_.reset();
    return failed;
  }
  document.line = ++line_;
  document.text.assign(line, static_cast<std::size_t>(size));
  if (document.text.ends_with('\n')) document.text.pop_back();
  if (document.text.ends_with('\r')) document.text.pop_back();
  if (!options_.field.empty()) take_fields(document, options_);
  return true;
}

}  // namespace longformer::cli
