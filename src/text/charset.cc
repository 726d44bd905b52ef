#include "text/charset.h"

#include <iconv.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "core/error.h"
#include "text/unicode.h"

namespace longformer::text {
namespace {

/// Charsets that browsers read under names that mean less, or another charset, to iconv:
/// https://encoding.spec.whatwg.org/#names-and-labels
constexpr std::array<std::pair<std::string_view, std::string_view>, 39> kAsBrowsersRead = {{
    {"ascii", "windows-1252"},
    {"us-ascii", "windows-1252"},
    {"iso-8859-1", "windows-1252"},
    {"iso8859-1", "windows-1252"},
    {"iso_8859-1", "windows-1252"},
    {"iso88591", "windows-1252"},
    {"iso-ir-100", "windows-1252"},
    {"ansi_x3.4-1968", "windows-1252"},
    {"latin1", "windows-1252"},
    {"latin-1", "windows-1252"},
    {"l1", "windows-1252"},
    {"cp819", "windows-1252"},
    {"ibm819", "windows-1252"},
    {"x-cp1250", "windows-1250"},
    {"x-cp1251", "windows-1251"},
    {"x-cp1252", "windows-1252"},
    {"iso-8859-8-i", "iso-8859-8"},
    {"logical", "iso-8859-8"},
    {"iso-8859-9", "windows-1254"},
    {"latin5", "windows-1254"},
    {"iso-8859-11", "windows-874"},
    {"tis-620", "windows-874"},
    {"gb2312", "gb18030"},
    {"gbk", "gb18030"},
    {"x-gbk", "gb18030"},
    {"big5", "big5-hkscs"},
    {"shift_jis", "cp932"},
    {"shift-jis", "cp932"},
    {"sjis", "cp932"},
    {"ms_kanji", "cp932"},
    {"windows-31j", "cp932"},
    {"x-euc-jp", "euc-jp"},
    {"x-sjis", "cp932"},
    {"euc-kr", "cp949"},
    {"ks_c_5601-1987", "cp949"},
    {"windows-949", "cp949"},
    {"x-mac-roman", "macintosh"},
    {"x-mac-cyrillic", "maccyrillic"},
    {"utf8", "utf-8"},
}};

using namespace std::string_view_literals;

/// Longer ones first: no UTF-16 text begins with U+0000.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kMarks = {
    {{"\xff\xfe\0\0"sv, "utf-32le"},
     {"\0\0\xfe\xff"sv, "utf-32be"},
     {"\xef\xbb\xbf"sv, "utf-8"},
     {"\xff\xfe"sv, "utf-16le"},
     {"\xfe\xff"sv, "utf-16be"}}};

std::string as_browsers_read(const std::string& name) {
  const std::string lower = ascii_lower(name);
  const auto* known = std::find_if(kAsBrowsersRead.begin(), kAsBrowsersRead.end(),
                                   [&](const auto& row) { return row.first == lower; });
  return known == kAsBrowsersRead.end() ? lower : std::string(known->second);
}

/// A charset on its way to UTF-8.
class Converter {
 public:
  explicit Converter(const std::string& charset) {
    // iconv takes instructions behind a slash.
    const bool is_name =
        charset.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.:") == std::string::npos;
    if (is_name) handle_ = iconv_open("UTF-8", charset.c_str());
    require(handle_ != kNone, "charset: expected one that can become UTF-8, found {}",
            is_name ? charset : "what is no name");
  }
  ~Converter() { iconv_close(handle_); }
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;

  Utf8Text convert(std::string_view bytes) {
    std::string input(bytes);
    Utf8Text result;
    std::string& output = result.text;
    char* next = input.data();
    std::size_t left = input.size();
    while (left > 0) {
      const bool done = step(next, left, output);
      // Without this every input would end here: what is not in the charset stops iconv.
      if (done || errno == E2BIG) continue;
      if (!result.first_invalid) result.first_invalid = input.size() - left;
      output += kReplacement;
      ++next;
      --left;
    }
    // Some charsets hold the last character back, as a mark may follow it.
    std::array<char, 16> buffer;
    char* end = buffer.data();
    std::size_t room = buffer.size();
    iconv(handle_, nullptr, nullptr, &end, &room);
    output.append(buffer.data(), buffer.size() - room);
    return result;
  }

 private:
  /// Whether it came to the end; errno says what has stopped it.
  bool step(char*& next, std::size_t& left, std::string& output) {
    std::array<char, 4096> buffer;
    char* end = buffer.data();
    std::size_t room = buffer.size();
    const std::size_t result = iconv(handle_, &next, &left, &end, &room);
    output.append(buffer.data(), buffer.size() - room);
    return result != static_cast<std::size_t>(-1);
  }

  // NOLINTNEXTLINE(performance-no-int-to-ptr): what iconv_open gives for an unknown charset.
  inline static const iconv_t kNone = reinterpret_cast<iconv_t>(-1);
  iconv_t handle_ = kNone;
};

}  // namespace

ByteOrderMark byte_order_mark(std::string_view bytes) {
  for (const auto& [mark, charset] : kMarks) {
    if (bytes.starts_with(mark)) return {charset, mark.size()};
  }
  return {};
}

std::string_view utf16_without_mark(std::string_view bytes) {
  constexpr std::size_t kLookedAt = 4096, kFewest = 2;
  const std::size_t pairs = std::min(bytes.size(), kLookedAt) / 2;
  if (pairs < kFewest || byte_order_mark(bytes).size > 0) return {};
  std::size_t first = 0, second = 0;
  for (std::size_t i = 0; i < pairs; ++i) {
    first += bytes[2 * i] == '\0' ? 1 : 0;
    second += bytes[2 * i + 1] == '\0' ? 1 : 0;
  }
  if (first == 0 && 2 * second > pairs) return "utf-16le";
  return second == 0 && 2 * first > pairs ? "utf-16be" : std::string_view();
}

bool may_become_mark(std::string_view bytes) {
  return std::any_of(kMarks.begin(), kMarks.end(), [&](const auto& row) {
    return bytes.size() < row.first.size() && row.first.starts_with(bytes);
  });
}

std::string charset_named(const std::string& name) { return as_browsers_read(name); }

bool is_charset(const std::string& name) {
  try {
    const Converter converter(as_browsers_read(name));
    return true;
  } catch (const Error&) {
    return false;
  }
}

Utf8Text utf8_text(std::string_view bytes, const std::string& charset) {
  const std::string known = as_browsers_read(charset);
  if (known != "utf-8") {
    Utf8Text result = Converter(known).convert(bytes);
    result.text = repaired_utf8(result.text);
    return result;
  }
  Utf8Text result = {.text = repaired_utf8(bytes), .first_invalid = std::nullopt};
  for (std::size_t at = 0; at < bytes.size() && !result.first_invalid;) {
    const DecodedCharacter character = decode_character(bytes, at);
    if (!character.valid) result.first_invalid = at;
    at += character.size;
  }
  return result;
}

std::string utf8_of(std::string_view bytes, const std::string& charset) {
  return utf8_text(bytes, charset).text;
}

}  // namespace longformer::text
