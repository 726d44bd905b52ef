// Comma- and tab-separated values (RFC 4180): fields in quotes may hold separators, line breaks as
// they are in the file, and quotes written twice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "longformer/text.h"

namespace longformer::text {

struct DelimitedOptions {
  /// One character of ASCII.
  char separator = ',';
  /// Without, a quote is a character like any other.
  bool quotes = true;
};

class DelimitedReader {
 public:
  DelimitedReader(TextLines lines, const DelimitedOptions& options);

  /// Whether there was one more record. Empty lines are none. Throws Error that names file and line
  /// for a quote that is not closed and for text behind one that is.
  bool next(std::vector<std::string>& fields);
  /// First line of the record read last, from 1.
  std::int64_t line() const { return begin_; }

 private:
  /// Reads the field at `at`, and more lines where a quoted one goes on; leaves `at` behind it.
  std::string field(std::size_t& at);
  std::string quoted_field(std::size_t& at);

  TextLines lines_;
  DelimitedOptions options_;
  std::string text_;
  std::int64_t begin_ = 0;
};

}  // namespace longformer::text
