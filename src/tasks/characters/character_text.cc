#include "tasks/characters/character_text.h"

#include "core/error.h"
#include "formats/json.h"

namespace longformer::tasks {

CharacterText::CharacterText(const CharacterData& data, text::Alphabet alphabet)
    : name_(data.file), alphabet_(alphabet), text_(formats::read_file(data.file)) {
  if (data.clean_up) {
    require(alphabet == text::Alphabet::text8,
            "clean-up: expected a model of the alphabet text8, found {}", text::name_of(alphabet));
    text_ = text::text8_of(text_);
    require(!text_.empty(), "{}: expected pages between <text …> and </text>, found none", name_);
  }
  text::check_characters(alphabet_, text_, name_);
}

std::vector<std::int32_t> CharacterText::ids(Index begin, Index count) const {
  return text::encode_characters(alphabet_,
                                 std::string_view(text_).substr(static_cast<std::size_t>(begin),
                                                                static_cast<std::size_t>(count)));
}

CharacterText::Range CharacterText::part(TextPart part) const {
  const Index twentieth = size() / 20;
  const Index validation = size() - 2 * twentieth;
  const Index test = size() - twentieth;
  switch (part) {
    case TextPart::train:
      return {0, validation};
    case TextPart::validation:
      return {validation, test};
    case TextPart::test:
      return {test, size()};
    case TextPart::all:
      break;
  }
  return {0, size()};
}

}  // namespace longformer::tasks
