// Characters of a text: UTF-8, and the properties that tokenizers ask for, as `tokenizers` sees
// them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace longformer::text {

/// Properties of a code point, as bits.
struct CharacterFlags {
  static constexpr std::uint16_t letter = 1 << 0;       ///< \p{L}
  static constexpr std::uint16_t number = 1 << 1;       ///< \p{N}
  static constexpr std::uint16_t whitespace = 1 << 2;   ///< White_Space
  static constexpr std::uint16_t dropped = 1 << 3;      ///< Removed by BERT's cleaning.
  static constexpr std::uint16_t punctuation = 1 << 4;  ///< A word of its own for BERT.
  static constexpr std::uint16_t nonspacing = 1 << 5;   ///< \p{Mn}, stripped as an accent.
  static constexpr std::uint16_t mark = 1 << 6;         ///< \p{M}, stripped as a mark.
  static constexpr std::uint16_t word = 1 << 7;         ///< \w
  static constexpr std::uint16_t indecomposable = 1 << 8;
  static constexpr std::uint16_t later_mark = 1 << 9;  ///< \p{M} in expressions: a later Unicode.
};

std::uint16_t character_flags(char32_t character);

/// Characters that BERT makes words of their own: the CJK blocks that `tokenizers` lists.
bool is_chinese_character(char32_t character);

/// \p{Ll}
bool is_lowercase(char32_t character);

/// Canonical combining class; 0 for starters.
int combining_class(char32_t character);

/// Appends the lower-case form: one character, two for U+0130.
void append_lowercase(char32_t character, std::u32string& out);

enum class Decomposition { canonical, compatible };

/// Appends the full decomposition without reordering.
void append_decomposition(char32_t character, std::u32string& out, Decomposition form);

/// The canonical composition of two characters, 0 when there is none.
char32_t compose(char32_t first, char32_t second);

/// A character of a UTF-8 text and its size in bytes. A maximal ill-formed part is one U+FFFD.
struct DecodedCharacter {
  char32_t value = 0;
  std::uint32_t size = 0;
  bool valid = true;
};

/// Decodes the character at `position`, which must lie inside the text. Accepts any bytes.
DecodedCharacter decode_character(std::string_view text, std::size_t position);

/// decode_character for text that is known to be valid: about three times as fast.
inline DecodedCharacter decode_valid(const char* position) {
  const auto byte = [position](int i) {
    return static_cast<char32_t>(static_cast<unsigned char>(position[i]));
  };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xe0) return {((lead & 0x1f) << 6) | (byte(1) & 0x3f), 2};
  if (lead < 0xf0) return {((lead & 0x0f) << 12) | ((byte(1) & 0x3f) << 6) | (byte(2) & 0x3f), 3};
  return {
      ((lead & 0x07) << 18) | ((byte(1) & 0x3f) << 12) | ((byte(2) & 0x3f) << 6) | (byte(3) & 0x3f),
      4};
}

/// The small form of an ASCII letter; other bytes stay as they are.
constexpr char ascii_lower(char byte) {
  return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a') : byte;
}
std::string ascii_lower(std::string_view text);

bool is_ascii(std::string_view text);
bool is_valid_utf8(std::string_view text);
/// The text with U+FFFD in place of each maximal ill-formed part.
std::string repaired_utf8(std::string_view text);

void append_utf8(char32_t character, std::string& out);

/// Turns byte positions of a valid UTF-8 text into character positions in constant time.
class CharacterIndex {
 public:
  explicit CharacterIndex(std::string_view text);

  /// The character that holds the byte at `position`.
  std::uint32_t character_of(std::size_t position) const {
    return ascii_ ? static_cast<std::uint32_t>(position) : starts_before(position + 1) - 1;
  }
  /// How many characters start before the byte position.
  std::uint32_t starts_before(std::size_t position) const {
    if (ascii_) return static_cast<std::uint32_t>(position);
    const auto below = (std::uint64_t{1} << (position % 64)) - 1;
    return counts_[position / 64] + bit_count(starts_[position / 64] & below);
  }

 private:
  // std::popcount calls a library function on the baseline instruction set.
  static std::uint32_t bit_count(std::uint64_t bits) {
    bits -= (bits >> 1) & 0x5555555555555555u;
    bits = (bits & 0x3333333333333333u) + ((bits >> 2) & 0x3333333333333333u);
    bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return static_cast<std::uint32_t>((bits * 0x0101010101010101u) >> 56);
  }

  bool ascii_;
  std::vector<std::uint64_t> starts_;  // one bit per byte: a character starts here
  std::vector<std::uint32_t> counts_;  // characters before each word of starts_
};

/// A value per code point, in pages that exist once they were asked for. New values are Value().
template <typename Value>
class CharacterTable {
 public:
  Value& at(char32_t character) {
    auto& page = pages_[character / 256];
    if (!page) page = std::make_unique<std::array<Value, 256>>();
    return (*page)[character % 256];
  }

 private:
  std::array<std::unique_ptr<std::array<Value, 256>>, 0x110000 / 256> pages_;
};

}  // namespace longformer::text
