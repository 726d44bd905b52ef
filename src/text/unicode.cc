#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "text/unicode_differences.h"

namespace longformer::text {
namespace {

const CodePointRange* find_range(const CodePointRange* begin, const CodePointRange* end,
                                 char32_t character) {
  const auto* range =
      std::lower_bound(begin, end, character,
                       [](const CodePointRange& r, char32_t c) { return char32_t{r.last} < c; });
  return range != end && range->first <= character ? range : nullptr;
}

bool in(char32_t character, char32_t first, char32_t last) {
  return character >= first && character <= last;
}

bool is_circled_letter(char32_t c) {
  return in(c, 0x24b6, 0x24e9) || in(c, 0x1f130, 0x1f149) || in(c, 0x1f150, 0x1f169) ||
         in(c, 0x1f170, 0x1f189);
}

std::uint16_t flags_of_category(char32_t c, utf8proc_category_t category) {
  using Flags = CharacterFlags;
  switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return Flags::letter | Flags::word;
    case UTF8PROC_CATEGORY_MN:
      return Flags::nonspacing | Flags::mark | Flags::later_mark | Flags::word;
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return Flags::mark | Flags::later_mark | Flags::word;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
      return Flags::number | Flags::word;
    case UTF8PROC_CATEGORY_NO:
      return Flags::number;
    case UTF8PROC_CATEGORY_PC:
      return Flags::punctuation | Flags::word;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return Flags::punctuation;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return c < 0x80 ? Flags::punctuation : 0;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return Flags::whitespace;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return Flags::dropped;
    default:
      return 0;
  }
}

// Bytes of a character by its lead byte, 0 for a byte that starts none.
std::uint32_t expected_size(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) return 3;
  return lead < 0xf5 ? 4 : 0;
}

// Whether a second byte may follow the lead: excludes overlong forms, surrogates and > U+10FFFF.
bool may_follow(unsigned char lead, unsigned char second) {
  switch (lead) {
    case 0xe0:
      return second >= 0xa0 && second <= 0xbf;
    case 0xed:
      return second >= 0x80 && second <= 0x9f;
    case 0xf0:
      return second >= 0x90 && second <= 0xbf;
    case 0xf4:
      return second >= 0x80 && second <= 0x8f;
    default:
      return second >= 0x80 && second <= 0xbf;
  }
}

}  // namespace

std::uint16_t character_flags(char32_t c) {
  using Flags = CharacterFlags;
  if (const auto* found = find_range(std::begin(different_flags), std::end(different_flags), c)) {
    return found->value;
  }
  auto flags = flags_of_category(c, utf8proc_category(static_cast<utf8proc_int32_t>(c)));
  if (in(c, 9, 13) || c == 0x85) flags |= Flags::whitespace;
  if (c == '\t' || c == '\n' || c == '\r') flags &= static_cast<std::uint16_t>(~Flags::dropped);
  if (c == 0xfffd) flags |= Flags::dropped;
  if (c == 0x200c || c == 0x200d || is_circled_letter(c)) flags |= Flags::word;
  return flags;
}

bool is_chinese_character(char32_t c) {
  return in(c, 0x4e00, 0x9fff) || in(c, 0x3400, 0x4dbf) || in(c, 0x20000, 0x2a6df) ||
         in(c, 0x2a700, 0x2b81f) || in(c, 0x2b920, 0x2ceaf) || in(c, 0xf900, 0xfaff) ||
         in(c, 0x2f800, 0x2fa1f);
}

bool is_lowercase(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LL;
}

int combining_class(char32_t c) {
  if (const auto* found =
          find_range(std::begin(different_classes), std::end(different_classes), c)) {
    return found->value;
  }
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

void append_lowercase(char32_t c, std::u32string& out) {
  if (c == 0x130) {
    out += U"i\u0307";
    return;
  }
  const auto* found =
      std::lower_bound(std::begin(different_lowercase), std::end(different_lowercase), c,
                       [](const CodePointPair& pair, char32_t x) { return pair.from < x; });
  const bool differs = found != std::end(different_lowercase) && found->from == c;
  out += differs ? char32_t{found->to}
                 : static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

void append_decomposition(char32_t c, std::u32string& out, Decomposition form) {
  const bool compatible = form == Decomposition::compatible;
  const bool whole =
      compatible ? c < 0xa0 || find_range(std::begin(compatibility_indecomposable),
                                          std::end(compatibility_indecomposable), c) != nullptr
                 : c < 0xc0 || (character_flags(c) & CharacterFlags::indecomposable) != 0;
  if (whole) {
    out += c;
    return;
  }
  std::array<utf8proc_int32_t, 32> parts;  // the longest decomposition has 18 characters
  int boundary = 0;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  const auto count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                              static_cast<utf8proc_ssize_t>(parts.size()), options, &boundary);
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    out += static_cast<char32_t>(parts[static_cast<std::size_t>(i)]);
  }
}

char32_t compose(char32_t first, char32_t second) {
  std::array<utf8proc_int32_t, 2> parts{static_cast<utf8proc_int32_t>(first),
                                        static_cast<utf8proc_int32_t>(second)};
  constexpr auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  if (utf8proc_normalize_utf32(parts.data(), 2, options) != 1) return 0;
  const auto composed = static_cast<char32_t>(parts[0]);
  return character_flags(composed) & CharacterFlags::indecomposable ? 0 : composed;
}

DecodedCharacter decode_character(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const auto available = text.size() - position;
  const auto size = expected_size(byte(0));
  if (size == 0) return {0xfffd, 1, false};
  for (std::uint32_t i = 1; i < size; ++i) {
    const bool fits =
        i < available && (i == 1 ? may_follow(byte(0), byte(1)) : (byte(i) & 0xc0) == 0x80);
    if (!fits) return {0xfffd, i, false};
  }
  return decode_valid(text.data() + position);
}

std::string ascii_lower(std::string_view text) {
  std::string lower(text);
  for (char& byte : lower) byte = ascii_lower(byte);
  return lower;
}

bool is_ascii(std::string_view text) {
  std::size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if (word & 0x8080808080808080u) return false;
  }
  for (; i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) >= 0x80) return false;
  }
  return true;
}

bool is_valid_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    std::uint64_t word;
    if (i + 8 <= text.size() && (std::memcpy(&word, text.data() + i, 8), true) &&
        (word & 0x8080808080808080u) == 0) {
      i += 8;
      continue;
    }
    const auto character = decode_character(text, i);
    if (!character.valid) return false;
    i += character.size;
  }
  return true;
}

std::string repaired_utf8(std::string_view text) {
  std::string repaired;
  repaired.reserve(text.size() + 16);
  for (std::size_t i = 0; i < text.size();) {
    const auto character = decode_character(text, i);
    if (character.valid) {
      repaired.append(text, i, character.size);
    } else {
      append_utf8(0xfffd, repaired);
    }
    i += character.size;
  }
  return repaired;
}

void append_utf8(char32_t c, std::string& out) {
  const auto put = [&out](char32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | (c >> 6));
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3f));
    put(0x80 | ((c >> 6) & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

CharacterIndex::CharacterIndex(std::string_view text) : ascii_(is_ascii(text)) {
  if (ascii_) return;
  const auto words = text.size() / 64 + 1;
  starts_.assign(words, 0);
  counts_.resize(words);
  std::uint32_t count = 0;
  for (std::size_t word = 0; word < words; ++word) {
    const auto begin = word * 64;
    const auto size = std::min<std::size_t>(64, text.size() - begin);
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const bool starts = (static_cast<unsigned char>(text[begin + i]) & 0xc0) != 0x80;
      bits |= std::uint64_t{starts} << i;
    }
    starts_[word] = bits;
    counts_[word] = count;
    count += bit_count(bits);
  }
}

}  // namespace longformer::text
