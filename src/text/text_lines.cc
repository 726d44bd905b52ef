#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/input_file.h"
#include "longformer/text.h"
#include "text/charset.h"
#include "text/unicode.h"

namespace longformer {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 16;
/// Bytes that tell the kind of an input.
constexpr std::size_t kBeginning = 4096;

/// An input whose bytes come piece by piece.
struct ByteReader {
  ByteSource read;
  /// Bytes of the file for each byte that came.
  std::function<double()> ratio;
};

ByteReader reader_of(std::shared_ptr<const std::string> bytes) {
  const auto read = [bytes = std::move(bytes), at = std::size_t{0}](std::span<char> to) mutable {
    const std::size_t count = std::min(to.size(), bytes->size() - at);
    std::memcpy(to.data(), bytes->data() + at, count);
    at += count;
    return count;
  };
  return {read, [] { return 1.0; }};
}

ByteReader reader_of(const std::string& path) {
  const auto file = std::make_shared<InputFile>(path);
  return {[file](std::span<char> to) { return file->read(to); }, [file] { return file->ratio(); }};
}

/// Name of an input in notes.
std::string shown_name(const std::string& path) { return path == "-" ? "standard input" : path; }

}  // namespace

struct TextLines::Implementation {
  Implementation(std::string name, ByteReader reader, const TextEncoding& encoding)
      : path(std::move(name)), input(std::move(reader)), decoder(encoding, shown_name(path)) {}

  /// Whether more bytes came.
  bool fill() {
    if (ended) return false;
    buffer.erase(0, std::exchange(begin, 0));
    const std::size_t before = buffer.size();
    buffer.resize(before + kPiece);
    std::size_t count = 0;
    try {
      count = input.read(std::span(buffer).subspan(before));
    } catch (...) {
      // Bytes before the error can still be read.
      buffer.resize(before);
      throw;
    }
    buffer.resize(before + count);
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
    if (!peeked) return read_line(line);
    line = std::move(*peeked);
    peeked.reset();
    return true;
  }

  const std::string* peek() {
    std::string line;
    if (!peeked && read_line(line)) peeked = std::move(line);
    return peeked ? &*peeked : nullptr;
  }

  bool read_line(std::string& line) {
    if (!started) start();
    const std::size_t end = line_end();
    if (end == buffer.size() && begin == end) return false;
    const std::string_view rest = std::string_view(buffer).substr(end);
    line_break = rest.starts_with("\r\n") ? "\r\n" : std::string(rest.substr(0, 1));
    const std::size_t size = end - begin + line_break.size();
    bytes = std::llround(bytes_per_byte * input.ratio() * static_cast<double>(size));
    line.assign(buffer, begin, size);
    begin += size;
    ++number;
    // The break counts as a byte of the file.
    if (!is_decoded) line = decoder.next(std::move(line));
    line.resize(line.size() - line_break.size());
    return true;
  }

  std::string path;
  ByteReader input;
  TextDecoder decoder;
  std::optional<std::string> peeked = {};
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
  ByteReader reader = reader_of(path);
  implementation_ = std::make_unique<Implementation>(std::move(path), std::move(reader), encoding);
}

TextLines::TextLines(std::string path, std::shared_ptr<const std::string> bytes,
                     const TextEncoding& encoding)
    : implementation_(std::make_unique<Implementation>(std::move(path), reader_of(std::move(bytes)),
                                                       encoding)) {}

TextLines::~TextLines() = default;
TextLines::TextLines(TextLines&&) noexcept = default;
TextLines& TextLines::operator=(TextLines&&) noexcept = default;

bool TextLines::next(std::string& line) { return implementation_->next(line); }
const std::string* TextLines::peek() { return implementation_->peek(); }
std::int64_t TextLines::number() const { return implementation_->number; }
std::string_view TextLines::line_break() const { return implementation_->line_break; }
std::int64_t TextLines::bytes() const { return implementation_->bytes; }
const std::string& TextLines::path() const { return implementation_->path; }

std::string input_bytes(const std::string& path,
                        const std::function<bool(std::string_view beginning)>& is_enough) {
  InputFile file(path);
  std::string all;
  bool is_asked = !is_enough;
  std::array<char, kPiece> buffer;
  for (std::size_t count = 0; (count = file.read(buffer)) > 0;) {
    all.append(buffer.data(), count);
    // Pipes hand out less at a time.
    if (is_asked || all.size() < kBeginning) continue;
    is_asked = true;
    if (is_enough(all)) return all;
  }
  if (!is_asked) static_cast<void>(is_enough(all));
  return all;
}

std::string unpacked_name(const std::string& file) {
  constexpr std::array<std::string_view, 4> kEndings = {".gz", ".xz", ".zst", ".zstd"};
  const std::string lower = text::ascii_lower(file);
  for (const std::string_view ending : kEndings) {
    if (lower.size() > ending.size() && lower.ends_with(ending)) {
      return file.substr(0, file.size() - ending.size());
    }
  }
  return file;
}

}  // namespace longformer
