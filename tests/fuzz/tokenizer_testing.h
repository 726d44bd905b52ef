// Properties of every text and tokenizer.
#pragma once

#include "fuzzing.h"
#include "longformer/text.h"

namespace longformer::fuzzing {

/// Encodes and decodes a text: ids are in the vocabulary, spans lie in the text.
inline void check_tokens(const Tokenizer& tokenizer, std::string_view text) {
  const Encoding tokens = tokenizer.encode(text);
  const auto characters = static_cast<std::int64_t>(character_starts(text).size()) - 1;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const CharacterSpan span = tokens.offsets[i];
    const bool good = tokens.ids[i] >= 0 && tokens.ids[i] < tokenizer.vocabulary_size() &&
                      span.begin >= 0 && span.begin <= span.end && span.end <= characters;
    if (!good) std::abort();
  }
  tokenizer.decode(tokens.ids);
}

}  // namespace longformer::fuzzing
