// Comma- and tab-separated values (RFC 4180): fields in quotes may hold separators, line breaks as
// they are in the file, and quotes written twice.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/text.h"

namespace longformer::text {

struct DelimitedOptions {
  /// One character of ASCII.
  char separator = ',';
  /// Without, a quote is a character like any other.
  bool quotes = true;
};

/// The fields of a line that ends its record.
std::vector<std::string> fields_of(std::string_view line, const DelimitedOptions& options);

/// The character between the fields of a table that begins with this line: the usual one, a comma,
/// a semicolon, a tab or a bar. It is the first one that gives a field of the `wanted` name; else
/// the usual one if the line has it, else the one that the line has most often. Without a name (of
/// a table without a header) it is the first that gives `count` fields.
char separator_of(std::string_view line, const DelimitedOptions& usual, std::string_view wanted,
                  std::size_t count = 0);

/// The character that a line "sep=;" names, which Excel writes before the header.
std::optional<char> named_separator(std::string_view line);

class DelimitedReader {
 public:
  DelimitedReader(TextLines lines, const DelimitedOptions& options);

  /// Whether there was one more record. Empty lines are none. Throws Error about "file:line" for a
  /// quote that is not closed and for text behind one that is. The line is that of the opening
  /// quote, and the next call goes on with the line behind it: no row is lost.
  bool next(std::vector<std::string>& fields);
  /// First line of the record read last, from 1.
  std::int64_t line() const { return begin_; }
  /// About how many bytes of the input the record read last took.
  std::int64_t bytes() const { return bytes_; }
  const std::string& path() const { return lines_.path(); }

 private:
  struct Line {
    std::string text, line_break;
    std::int64_t number = 0, bytes = 0;
  };

  /// Reads the field at `at`, and more lines where a quoted one goes on; leaves `at` behind it.
  std::string field(std::size_t& at);
  std::string quoted_field(std::size_t& at);
  bool next_line();
  /// Throws Error about the line where a quote opens; those behind it will be read again.
  [[noreturn]] void refuse(std::int64_t opened, const std::string& fault);

  TextLines lines_;
  DelimitedOptions options_;
  Line line_;
  /// Lines of the record before the last one, and those to read again.
  std::deque<Line> before_, again_;
  std::int64_t begin_ = 0, bytes_ = 0;
};

}  // namespace longformer::text
