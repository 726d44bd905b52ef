#include "text/python_text.h"

namespace longformer::text {

bool is_python_word(char32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  return (character_flags(c) & (CharacterFlags::letter | CharacterFlags::number)) != 0;
}

bool is_case_ignorable(char32_t c) {
  constexpr std::u32string_view kOthers = U"'.:^`\u00a8\u00ad\u00af\u00b4\u00b7\u00b8\u2018\u2019";
  return kOthers.find(c) != std::u32string_view::npos ||
         (c >= 0x80 && (character_flags(c) & CharacterFlags::mark) != 0);
}

bool is_cased(char32_t c) {
  constexpr char32_t kFirstWithoutCase = 0x590, kLatinAndGreek = 0x1e00, kPunctuation = 0x2000;
  std::u32string lower;
  append_lowercase(c, lower);
  if (lower.size() != 1 || lower.front() != c) return true;
  const bool has_alphabet = c < kFirstWithoutCase || (c >= kLatinAndGreek && c < kPunctuation);
  return has_alphabet && (character_flags(c) & CharacterFlags::letter) != 0;
}

bool goes_on_behind_sigma(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const DecodedCharacter next = decode_character(text, at);
    if (!is_case_ignorable(next.value)) return is_cased(next.value);
    at += next.size;
  }
  return false;
}

}  // namespace longformer::text
