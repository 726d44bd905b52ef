// Text files line by line, with the number of the line for messages.
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <string>

#include "longformer/text_encoding.h"

namespace longformer::text {

class LineReader {
 public:
  /// Throws Error with the system's reason when the file cannot be read.
  explicit LineReader(std::string path, const TextEncoding& encoding = {});

  /// Whether there was one more line; without its line break, and without a byte-order mark. What
  /// is not in the encoding is U+FFFD. Throws Error when reading fails.
  bool next(std::string& line);
  /// Number of the line read last, from 1.
  std::int64_t number() const { return number_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::unique_ptr<std::istream> stream_;
  TextDecoder decoder_;
  /// The lines are of a text that was decoded as a whole.
  bool decoded_;
  std::int64_t number_ = 0;
};

}  // namespace longformer::text
