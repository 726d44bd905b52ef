// Text for character language models: files, and their parts by position (spec.md D.4).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "longformer/character_text.h"
#include "text/characters.h"

namespace longformer::tasks {

class CharacterText {
 public:
  /// Throws Error for a file that cannot be read and for bytes outside the alphabet.
  CharacterText(const CharacterData& data, text::Alphabet alphabet);

  Index size() const { return static_cast<Index>(text_.size()); }
  const std::string& name() const { return name_; }
  /// Numbers of so many characters from a place on, which must all be there.
  std::vector<std::int32_t> ids(Index begin, Index count) const;

  struct Range {
    Index begin = 0;
    Index end = 0;
    Index size() const { return end - begin; }
  };
  Range part(TextPart part) const;

 private:
  std::string name_;
  text::Alphabet alphabet_;
  std::string text_;
};

}  // namespace longformer::tasks
