#include "text/basic_words.h"

#include "text/unicode.h"

namespace longformer::text {

std::vector<CharacterSpan> basic_words(std::string_view text) {
  std::vector<CharacterSpan> words;
  std::int64_t number = 0;
  bool inside = false;
  for (std::size_t place = 0; place < text.size(); ++number) {
    const DecodedCharacter character = decode_character(text, place);
    place += character.size;
    const std::uint16_t flags = character_flags(character.value);
    if ((flags & CharacterFlags::whitespace) != 0) {
      inside = false;
    } else if ((flags & CharacterFlags::dropped) != 0) {
      continue;
    } else if ((flags & CharacterFlags::punctuation) != 0 ||
               is_chinese_character(character.value)) {
      words.push_back({number, number + 1});
      inside = false;
    } else if (inside) {
      words.back().end = number + 1;
    } else {
      words.push_back({number, number + 1});
      inside = true;
    }
  }
  return words;
}

}  // namespace longformer::text
