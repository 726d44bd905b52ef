// Texts in other charsets than UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace longformer::text {

/// U+FFFD in UTF-8, which stands for what is no character.
inline constexpr std::string_view kReplacement = "\xef\xbf\xbd";

/// The bytes at the beginning of a text that tell its charset.
struct ByteOrderMark {
  /// Empty where there is none.
  std::string_view charset;
  std::size_t size = 0;
};

/// Recognises the marks of UTF-8, UTF-16 and UTF-32.
ByteOrderMark byte_order_mark(std::string_view bytes);

/// "utf-16le" or "utf-16be" for bytes that are one without a mark: of most characters one byte, the
/// same one, is 0, as it is in the scripts of Europe. Empty for all others.
std::string_view utf16_without_mark(std::string_view bytes);

/// Whether more bytes may make a longer byte-order mark of them, or one at all.
bool may_become_mark(std::string_view bytes);

/// Name in iconv of a charset that has a name of web pages or of iconv.
std::string charset_named(const std::string& name);
/// Whether there is such a charset.
bool is_charset(const std::string& name);

struct Utf8Text {
  std::string text = {};
  /// The first byte that is not in the charset; absent where all are.
  std::optional<std::size_t> first_invalid = std::nullopt;
};

/// Bytes of a charset as UTF-8, with U+FFFD in place of what is not in it. The charset has a name
/// that web pages use, or that iconv knows. Throws Error for one that is not known.
Utf8Text utf8_text(std::string_view bytes, const std::string& charset);
std::string utf8_of(std::string_view bytes, const std::string& charset);

}  // namespace longformer::text
