// The lines of text files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "longformer/text_encoding.h"

namespace longformer {

/// The lines of a file, a pipe or, by the name "-", standard input. A line ends with LF, CR LF or
/// CR, as Python reads text files. A line is there as soon as its bytes are: a pipe is not read
/// ahead.
class TextLines {
 public:
  /// Throws Error with the system's reason when the input cannot be read.
  explicit TextLines(std::string path, const TextEncoding& encoding = {});
  /// The same over bytes that were read before; `path` is where they come from, for messages.
  TextLines(std::string path, std::shared_ptr<const std::string> bytes,
            const TextEncoding& encoding = {});
  ~TextLines();
  TextLines(TextLines&&) noexcept;
  TextLines& operator=(TextLines&&) noexcept;

  /// Whether there was one more line; without its line break, and without a byte-order mark. What
  /// is not in the encoding is U+FFFD. Throws Error when reading fails.
  bool next(std::string& line);
  /// Number of the line read last, from 1.
  std::int64_t number() const;
  /// The line break of the line read last; empty at the end of the input.
  std::string_view line_break() const;
  /// About how many bytes of the input the line read last took.
  std::int64_t bytes() const;
  const std::string& path() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace longformer
