#include <optional>
#include <utility>

#include "core/error.h"
#include "core/file_kind.h"
#include "longformer/options.h"
#include "longformer/text.h"
#include "text/charset.h"
#include "text/unicode.h"

namespace longformer {
namespace {

constexpr std::string_view kUtf8 = "utf-8";
constexpr std::string_view kAuto = "auto";
constexpr std::string_view kOtherwise = "windows-1252";

}  // namespace

struct TextDecoder::Implementation {
  TextEncoding encoding;
  std::string name;
  /// Name of the encoding in iconv, or auto.
  std::string charset;
  std::size_t bytes_before = 0;
  bool told = false;
  /// Whether it gets lines, of which none says what all bytes are.
  bool gets_lines = false;

  /// The charset that bytes have where the user names none that has bytes 0; empty: that of the
  /// name.
  std::string_view unmarked(std::string_view bytes) const {
    if (gets_lines) return {};
    return charset == kUtf8 || charset == kAuto ? text::utf16_without_mark(bytes) : "";
  }

  void tell(const std::string& what) {
    if (!std::exchange(told, true) && encoding.note) encoding.note(name + ": " + what);
  }

  /// The charset of bytes of which auto tells it.
  std::string charset_of(std::string_view bytes) {
    if (charset != kAuto) return charset;
    if (text::is_valid_utf8(bytes)) return std::string(kUtf8);
    tell(fmt::format("not UTF-8 at byte {}, read as {}",
                     text::utf8_text(bytes, std::string(kUtf8)).first_invalid.value_or(0),
                     kOtherwise));
    return std::string(kOtherwise);
  }

  void check_is_text(std::string_view beginning) const {
    const FileKind kind = file_kind(beginning);
    require(kind.may_be_text(), FileName{name}, "expected text, found {}", described(kind));
  }

  std::string decoded(std::string bytes) {
    const std::size_t begin = std::exchange(bytes_before, bytes_before + bytes.size());
    if (begin == 0) check_is_text(bytes);
    const text::ByteOrderMark mark =
        begin == 0 ? text::byte_order_mark(bytes) : text::ByteOrderMark();
    if (mark.size > 0) charset = mark.charset;
    if (const std::string_view seen = begin == 0 ? unmarked(bytes) : ""; !seen.empty()) {
      charset = seen;
      tell(fmt::format("read as {}, though it has no byte-order mark", seen));
    }
    const std::string_view rest = std::string_view(bytes).substr(mark.size);
    const std::string from = charset_of(rest);
    std::string found;
    if (from == kUtf8 && text::is_valid_utf8(rest)) {
      found = mark.size == 0 ? std::move(bytes) : std::string(rest);
    } else {
      found = converted(rest, from, begin + mark.size);
    }
    const bool has_zeros = found.find('\0') != std::string::npos;
    if (has_zeros) tell("has bytes 0, as UTF-16 without a byte-order mark does");
    return found;
  }

 private:
  std::string converted(std::string_view bytes, const std::string& from, std::size_t begin) {
    text::Utf8Text found = text::utf8_text(bytes, from);
    if (found.first_invalid) {
      tell(fmt::format("not {} at byte {}; what is not has become U+FFFD",
                       from == kUtf8 ? "UTF-8" : from, begin + *found.first_invalid));
    }
    return std::move(found.text);
  }
};

TextDecoder::TextDecoder(const TextEncoding& encoding, std::string name)
    : implementation_(std::make_unique<Implementation>()) {
  implementation_->encoding = encoding;
  implementation_->name = std::move(name);
  implementation_->charset =
      encoding.name == kAuto ? encoding.name : text::charset_named(encoding.name);
}

TextDecoder::~TextDecoder() = default;
TextDecoder::TextDecoder(TextDecoder&&) noexcept = default;
TextDecoder& TextDecoder::operator=(TextDecoder&&) noexcept = default;

bool TextDecoder::takes_lines(std::string_view beginning) const {
  const std::string_view marked = text::byte_order_mark(beginning).charset;
  if (!marked.empty()) return marked == kUtf8;
  if (!implementation_->unmarked(beginning).empty()) return false;
  const std::string& charset = implementation_->charset;
  bool& gets_lines = implementation_->gets_lines;
  gets_lines =
      charset == kUtf8 || charset.starts_with("windows-125") || charset.starts_with("iso-8859-");
  return gets_lines;
}

std::string TextDecoder::next(std::string bytes) {
  return implementation_->decoded(std::move(bytes));
}

void check(const TextEncoding& encoding) {
  require(encoding.name == kAuto || text::is_charset(encoding.name), OptionName("encoding"),
          "expected utf-8, latin-1, utf-16, auto or another name that iconv knows, found "
          "\"{}\"",
          encoding.name);
}

std::string decoded_text(std::string bytes, const TextEncoding& encoding, const std::string& name) {
  return TextDecoder(encoding, name).next(std::move(bytes));
}

}  // namespace longformer
