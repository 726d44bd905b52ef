#include "text/delimited.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "text/unicode.h"

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

std::optional<char> named_separator(std::string_view line) {
  constexpr std::string_view kName = "sep=";
  const bool is_named = line.size() == kName.size() + 1 &&
                        ascii_lower(std::string(line.substr(0, kName.size()))) == kName;
  if (!is_named || static_cast<unsigned char>(line.back()) >= 0x80) return std::nullopt;
  return line.back();
}

DelimitedReader::DelimitedReader(TextLines lines, const DelimitedOptions& options)
    : lines_(std::move(lines)), options_(options) {}

bool DelimitedReader::next_line() {
  if (!again_.empty()) {
    line_ = std::move(again_.front());
    again_.pop_front();
    return true;
  }
  if (!lines_.next(line_.text)) return false;
  line_.line_break = lines_.line_break();
  line_.number = lines_.number();
  line_.bytes = lines_.bytes();
  return true;
}

bool DelimitedReader::next(std::vector<std::string>& fields) {
  fields.clear();
  before_.clear();
  do {
    if (!next_line()) return false;
  } while (line_.text.empty());
  begin_ = line_.number;
  bytes_ = line_.bytes;
  std::size_t at = 0;
  fields.push_back(field(at));
  while (at < line_.text.size()) {
    ++at;
    fields.push_back(field(at));
  }
  return true;
}

void DelimitedReader::refuse(std::int64_t opened, const std::string& fault) {
  begin_ = opened;
  while (!before_.empty() && before_.front().number <= opened) before_.pop_front();
  if (line_.number > opened) before_.push_back(std::move(line_));
  again_.insert(again_.begin(), std::make_move_iterator(before_.begin()),
                std::make_move_iterator(before_.end()));
  before_.clear();
  throw Error({.subject = fmt::format("{}:{}", lines_.path(), opened),
               .reason = fault,
               .remedies = {Remedy::quotes}});
}

std::string DelimitedReader::field(std::size_t& at) {
  if (options_.quotes && at < line_.text.size() && line_.text[at] == '"') return quoted_field(at);
  const std::size_t end = std::min(line_.text.find(options_.separator, at), line_.text.size());
  std::string value = line_.text.substr(at, end - at);
  at = end;
  return value;
}

std::string DelimitedReader::quoted_field(std::size_t& at) {
  const std::int64_t opened = line_.number;
  std::string value;
  ++at;
  while (true) {
    const std::string& text = line_.text;
    const std::size_t quote = text.find('"', at);
    if (quote == std::string::npos) {
      value.append(text, at).append(line_.line_break);
      before_.push_back(line_);
      if (!next_line()) {
        line_.number = opened;
        refuse(opened,
               "expected a closing quote for the one that opens in this line, found the end of "
               "the file");
      }
      bytes_ += line_.bytes;
      at = 0;
      continue;
    }
    value.append(text, at, quote - at);
    at = quote + 1;
    if (at == text.size() || text[at] == options_.separator) return value;
    if (text[at] != '"') {
      refuse(opened, line_.number == opened
                         ? "expected a separator behind a closing quote, found other text"
                         : fmt::format("expected a separator behind the closing quote in line {}, "
                                       "found other text: the quote that opens here may have no "
                                       "end",
                                       line_.number));
    }
    value.push_back('"');
    ++at;
  }
}

}  // namespace longformer::text
