#include "text/html_references.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "text/html_names.h"
#include "text/unicode.h"

namespace longformer::text {
namespace {

constexpr char32_t kReplacementCharacter = 0xfffd, kLastCharacter = 0x10ffff;

/// Characters 128 to 159 of windows-1252; five are none there and stay.
constexpr std::array<char16_t, 32> kWindows1252 = {
    0x20ac, 0x0081, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
    0x2039, 0x0152, 0x008d, 0x017d, 0x008f, 0x0090, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
    0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x009d, 0x017e, 0x0178};

struct Name {
  std::string_view name;
  bool needs_semicolon;
  std::string_view characters;
};

struct Names {
  std::vector<Name> sorted;
  std::size_t longest = 0;
};

Names read_names() {
  Names names;
  for (std::string_view rest = html_names; !rest.empty();) {
    const std::size_t mark = rest.find_first_of("=;"), end = rest.find(' ', mark);
    names.sorted.push_back({.name = rest.substr(0, mark),
                            .needs_semicolon = rest[mark] == ';',
                            .characters = rest.substr(mark + 1, end - mark - 1)});
    names.longest = std::max(names.longest, mark);
    rest.remove_prefix(end + 1);
  }
  return names;
}

const Name* find_name(const std::vector<Name>& names, std::string_view wanted) {
  const auto found =
      std::lower_bound(names.begin(), names.end(), wanted,
                       [](const Name& row, std::string_view name) { return row.name < name; });
  return found != names.end() && found->name == wanted ? &*found : nullptr;
}

bool is_letter_or_digit(char c) {
  const char small = ascii_lower(c);
  return (small >= 'a' && small <= 'z') || (c >= '0' && c <= '9');
}

/// A control character that is no white space, or a place that Unicode gives to no character.
bool is_invalid(char32_t c) {
  const bool is_white = c == '\t' || c == '\n' || c == '\f' || c == '\r';
  return (c < ' ' && !is_white) || (c >= 0x7f && c <= 0x9f) || (c >= 0xfdd0 && c <= 0xfdef) ||
         (c & 0xfffe) == 0xfffe;
}

void append_number(char32_t number, std::string& out) {
  if (number >= 0x80 && number <= 0x9f) {
    append_utf8(kWindows1252[number - 0x80], out);
  } else if (number == 0 || (number >= 0xd800 && number <= 0xdfff) || number > kLastCharacter) {
    append_utf8(kReplacementCharacter, out);
  } else if (!is_invalid(number)) {
    append_utf8(number, out);
  }
}

std::optional<char32_t> digit_of(char c, char32_t base) {
  const char small = ascii_lower(c);
  if (c >= '0' && c <= '9') return static_cast<char32_t>(c - '0');
  if (base == 16 && small >= 'a' && small <= 'f') return static_cast<char32_t>(small - 'a' + 10);
  return std::nullopt;
}

/// Appends what stands behind "&#", and gives how many bytes of it that were; 0 for no reference.
std::size_t append_numeric(std::string_view text, std::string& out) {
  const bool is_hexadecimal = text.starts_with('x') || text.starts_with('X');
  const char32_t base = is_hexadecimal ? 16 : 10;
  const std::size_t begin = is_hexadecimal ? 1 : 0;
  std::size_t end = begin;
  char32_t number = 0;
  for (; end < text.size(); ++end) {
    const auto digit = digit_of(text[end], base);
    if (!digit) break;
    // A number that is too large stays so.
    number = std::min(number * base + *digit, kLastCharacter + 1);
  }
  if (end == begin) return 0;
  append_number(number, out);
  return end < text.size() && text[end] == ';' ? end + 1 : end;
}

/// Appends the character of a name after "&": the longest name counts.
std::size_t append_named(std::string_view text, std::string& out) {
  static const Names names = read_names();
  std::size_t size = 0;
  while (size < std::min(text.size(), names.longest) && is_letter_or_digit(text[size])) ++size;
  for (; size > 0; --size) {
    const Name* found = find_name(names.sorted, text.substr(0, size));
    if (found == nullptr) continue;
    const bool has_semicolon = size < text.size() && text[size] == ';';
    if (!has_semicolon && found->needs_semicolon) continue;
    out += found->characters;
    return has_semicolon ? size + 1 : size;
  }
  return 0;
}

}  // namespace

std::string without_references(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t mark = std::min(text.find('&'), text.size());
    out += text.substr(0, mark);
    text.remove_prefix(mark);
    if (text.empty()) break;
    const bool is_number = text.substr(1).starts_with('#');
    const std::size_t before = is_number ? 2 : 1;
    const std::size_t size =
        is_number ? append_numeric(text.substr(2), out) : append_named(text.substr(1), out);
    if (size == 0) out += '&';
    text.remove_prefix(size == 0 ? 1 : before + size);
  }
  return out;
}

}  // namespace longformer::text
