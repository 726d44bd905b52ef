#include "text/delimited.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"

namespace longformer::text {

namespace {

/// The field of a line that begins at `at`, which is left behind it.
std::string field_of(std::string_view line, const DelimitedOptions& options, std::size_t& at) {
  std::string value;
  bool is_quoted = options.quotes && at < line.size() && line[at] == '"';
  at += is_quoted ? 1 : 0;
  for (; at < line.size(); ++at) {
    if (is_quoted && line[at] == '"') {
      is_quoted = line.substr(at + 1).starts_with('"');
      at += is_quoted ? 1 : 0;
      if (!is_quoted) continue;
    } else if (!is_quoted && line[at] == options.separator) {
      break;
    }
    value += line[at];
  }
  return value;
}

}  // namespace

std::vector<std::string> fields_of(std::string_view line, const DelimitedOptions& options) {
  std::size_t at = 0;
  std::vector<std::string> fields = {field_of(line, options, at)};
  while (at < line.size()) {
    ++at;
    fields.push_back(field_of(line, options, at));
  }
  return fields;
}

char separator_of(std::string_view line, const DelimitedOptions& usual, std::string_view wanted,
                  std::size_t count) {
  const std::array<char, 5> candidates = {usual.separator, ',', ';', '\t', '|'};
  char most = usual.separator;
  std::size_t most_fields = 1;
  for (const char separator : candidates) {
    const auto fields = fields_of(line, {.separator = separator, .quotes = usual.quotes});
    const bool fits = count > 0 ? fields.size() == count
                                : std::find(fields.begin(), fields.end(), wanted) != fields.end();
    if (fits) return separator;
    // The usual one comes first, and has to be there alone.
    if (most == usual.separator && most_fields > 1) continue;
    if (fields.size() > most_fields) {
      most = separator;
      most_fields = fields.size();
    }
  }
  return most;
}

DelimitedReader::DelimitedReader(TextLines lines, const DelimitedOptions& options)
    : lines_(std::move(lines)), options_(options) {}

bool DelimitedReader::next(std::vector<std::string>& fields) {
  fields.clear();
  do {
    if (!lines_.next(text_)) return false;
  } while (text_.empty());
  begin_ = lines_.number();
  bytes_ = lines_.bytes();
  std::size_t at = 0;
  fields.push_back(field(at));
  while (at < text_.size()) {
    ++at;
    fields.push_back(field(at));
  }
  return true;
}

void DelimitedReader::refuse(std::int64_t line, std::string_view fault) const {
  throw Error({.subject = fmt::format("{}:{}", lines_.path(), line),
               .reason = fmt::format("expected {}", fault),
               .remedies = {Remedy::quotes}});
}

std::string DelimitedReader::field(std::size_t& at) {
  if (options_.quotes && at < text_.size() && text_[at] == '"') return quoted_field(at);
  const std::size_t end = std::min(text_.find(options_.separator, at), text_.size());
  std::string value = text_.substr(at, end - at);
  at = end;
  return value;
}

std::string DelimitedReader::quoted_field(std::size_t& at) {
  const std::int64_t opened = lines_.number();
  std::string value;
  ++at;
  while (true) {
    const std::size_t quote = text_.find('"', at);
    if (quote == std::string::npos) {
      value.append(text_, at).append(lines_.line_break());
      if (!lines_.next(text_)) refuse(opened, "a closing quote, found the end of the file");
      bytes_ += lines_.bytes();
      at = 0;
      continue;
    }
    value.append(text_, at, quote - at);
    at = quote + 1;
    if (at == text_.size() || text_[at] == options_.separator) return value;
    if (text_[at] != '"') {
      refuse(lines_.number(), "a separator behind a closing quote, found other text");
    }
    value.push_back('"');
    ++at;
  }
}

}  // namespace longformer::text
