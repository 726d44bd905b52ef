#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/input_file.h"
#include "longformer/text.h"
#include "text/charset.h"

namespace longformer {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 16;

/// Hands out the next bytes of an input; none at the end.
using ReadBytes = std::function<std::size_t(std::span<char>)>;

ReadBytes reader_of(std::shared_ptr<const std::string> bytes) {
  return [bytes = std::move(bytes), at = std::size_t{0}](std::span<char> to) mutable {
    const std::size_t count = std::min(to.size(), bytes->size() - at);
    std::memcpy(to.data(), bytes->data() + at, count);
    at += count;
    return count;
  };
}

ReadBytes reader_of(const std::string& path) {
  return [file = std::make_shared<InputFile>(path)](std::span<char> to) { return file->read(to); };
}

/// Name of an input in notes.
std::string shown_name(const std::string& path) { return path == "-" ? "standard input" : path; }

}  // namespace

struct TextLines::Implementation {
  Implementation(std::string name, ReadBytes reader, const TextEncoding& encoding)
      : path(std::move(name)), read(std::move(reader)), decoder(encoding, shown_name(path)) {}

  /// Whether more bytes came.
  bool fill() {
    if (ended) return false;
    buffer.erase(0, std::exchange(begin, 0));
    const std::size_t before = buffer.size();
    buffer.resize(before + kPiece);
    buffer.resize(before + read(std::span(buffer).subspan(before)));
    ended = buffer.size() == before;
    return !ended;
  }

  /// The charset decides whether lines can be found before they are decoded.
  void start() {
    started = true;
    while (text::may_become_mark(buffer) && fill()) continue;
    if (decoder.takes_lines(buffer)) return;
    while (fill()) continue;
    const auto size = static_cast<double>(buffer.size());
    buffer = decoder.next(std::move(buffer));
    if (!buffer.empty()) bytes_per_byte = size / static_cast<double>(buffer.size());
    is_decoded = true;
  }

  /// End of the line that begins at `begin`, once known.
  std::size_t line_end() {
    const auto is_break = [](char byte) { return byte == '\n' || byte == '\r'; };
    std::size_t length = 0;
    while (true) {
      const auto from = buffer.begin() + static_cast<std::ptrdiff_t>(begin + length);
      const auto found = std::find_if(from, buffer.end(), is_break);
      length += static_cast<std::size_t>(found - from);
      // LF may follow a CR that is the last byte so far.
      const bool is_known = found != buffer.end() && (*found == '\n' || found + 1 != buffer.end());
      if (is_known || !fill()) return begin + length;
    }
  }

  bool next(std::string& line) {
    if (!started) start();
    const std::size_t end = line_end();
    if (end == buffer.size() && begin == end) return false;
    const std::string_view rest = std::string_view(buffer).substr(end);
    line_break = rest.starts_with("\r\n") ? "\r\n" : std::string(rest.substr(0, 1));
    const std::size_t size = end - begin + line_break.size();
    bytes = std::llround(bytes_per_byte * static_cast<double>(size));
    line.assign(buffer, begin, size);
    begin += size;
    ++number;
    // The break counts as a byte of the file.
    if (!is_decoded) line = decoder.next(std::move(line));
    line.resize(line.size() - line_break.size());
    return true;
  }

  std::string path;
  ReadBytes read;
  TextDecoder decoder;
  /// Bytes that were read; those from `begin` on are not yet in a line.
  std::string buffer = {};
  std::size_t begin = 0;
  bool started = false, ended = false;
  /// The buffer is the whole text.
  bool is_decoded = false;
  double bytes_per_byte = 1;
  std::string line_break = {};
  std::int64_t number = 0, bytes = 0;
};

TextLines::TextLines(std::string path, const TextEncoding& encoding) {
  ReadBytes read = reader_of(path);
  implementation_ = std::make_unique<Implementation>(std::move(path), std::move(read), encoding);
}

TextLines::TextLines(std::string path, std::shared_ptr<const std::string> bytes,
                     const TextEncoding& encoding)
    : implementation_(std::make_unique<Implementation>(std::move(path), reader_of(std::move(bytes)),
                                                       encoding)) {}

TextLines::~TextLines() = default;
TextLines::TextLines(TextLines&&) noexcept = default;
TextLines& TextLines::operator=(TextLines&&) noexcept = default;

bool TextLines::next(std::string& line) { return implementation_->next(line); }
std::int64_t TextLines::number() const { return implementation_->number; }
std::string_view TextLines::line_break() const { return implementation_->line_break; }
std::int64_t TextLines::bytes() const { return implementation_->bytes; }
const std::string& TextLines::path() const { return implementation_->path; }

}  // namespace longformer
