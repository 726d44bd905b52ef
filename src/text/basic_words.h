// The words of a text as BERT's basic tokenisation sees them.
#pragma once

#include <string_view>
#include <vector>

#include "longformer/text.h"

namespace longformer::text {

/// The characters of each word: runs without white space, where punctuation and Chinese characters
/// are words of their own. Control characters that BERT drops end no word, but are in none alone.
std::vector<CharacterSpan> basic_words(std::string_view text);

}  // namespace longformer::text
