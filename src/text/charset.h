// Texts in other charsets than UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace longformer::text {

/// The bytes at the beginning of a text that tell its charset.
struct ByteOrderMark {
  /// Empty where there is none.
  std::string_view charset;
  std::size_t size = 0;
};

/// Of UTF-8 and UTF-16.
ByteOrderMark byte_order_mark(std::string_view bytes);

/// Bytes of a charset as UTF-8, with U+FFFD in place of what is not in it. The charset has a name
/// that web pages use, or that iconv knows. Throws Error for one that is not known.
std::string utf8_of(std::string_view bytes, const std::string& charset);

}  // namespace longformer::text
