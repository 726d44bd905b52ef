// Text as Python's str and re see it, in which the official scripts of data sets are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/unicode.h"

namespace longformer::text {

/// \w of Python's re but for the underscore, as str.isalnum() has it: marks are no part of words.
bool is_python_word(char32_t character);

/// Characters between letters that do not separate them for the rule of the final sigma.
bool is_case_ignorable(char32_t character);

/// Whether a letter is of an alphabet with two cases.
bool is_cased(char32_t character);

/// Whether a word goes on at the byte, behind a capital sigma.
bool goes_on_behind_sigma(std::string_view text, std::size_t at);

/// Calls take(character, place) with all characters in lower case, as str.lower() has them, and the
/// place that each has in the text, in characters. Accepts any bytes.
template <typename Take>
void each_lowered(std::string_view text, const Take& take) {
  constexpr char32_t kSigma = U'Σ', kFinalSigma = U'ς';
  std::u32string lower;
  std::int64_t place = 0;
  bool behind_cased = false;
  for (std::size_t at = 0; at < text.size(); ++place) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      const auto small = static_cast<unsigned char>(ascii_lower(static_cast<char>(byte)));
      take(static_cast<char32_t>(small), place);
      const bool letter = small >= 'a' && small <= 'z';
      behind_cased = letter || (behind_cased && is_case_ignorable(byte));
      ++at;
      continue;
    }
    const DecodedCharacter character = decode_character(text, at);
    at += character.size;
    lower.clear();
    append_lowercase(character.value, lower);
    if (character.value == kSigma && behind_cased && !goes_on_behind_sigma(text, at)) {
      lower = kFinalSigma;
    }
    for (const char32_t c : lower) take(c, place);
    if (!is_case_ignorable(character.value)) behind_cased = is_cased(character.value);
  }
}

}  // namespace longformer::text
