// Boundaries of a text where a reader may stop: between characters, words, sentences and
// paragraphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "longformer/text.h"

namespace longformer::text {

/// How good it is to stop between two characters: the larger, the better.
enum class Boundary : std::uint8_t {
  inside_grapheme,  ///< Before a mark or vowel sign, in an emoji of several characters.
  inside_word,      ///< Between two letters, digits or underscores, over invisible characters.
  beside_mark,      ///< No blank, but a character that belongs to no word on one side.
  between_letters,  ///< Between letters of a script without blanks, such as Han or Thai.
  word,             ///< At a blank, or behind a mark in a script without blanks.
  sentence,
  paragraph,  ///< Behind an empty line.
};

/// The boundary before each character and, as last element, behind the text: one more than
/// characters. Words follow Unicode's UAX #29 without its rules for marks between letters, such as
/// the apostrophe of "don't". Sentences end at the marks of Unicode's Sentence_Terminal, which need
/// a blank behind them where the script has blanks and the mark may stand inside a word (. ! ?),
/// and at an ellipsis before what is no small letter. The boundary lies behind closing quotation
/// marks and brackets and behind the blank.
std::vector<Boundary> boundaries(std::string_view text);

/// The span with the rest of the graphemes that it begins and ends in; an empty one, such as that
/// of a token of a blank, stays. `starts` are character_starts of the text.
CharacterSpan whole_graphemes(std::string_view text, std::span<const std::size_t> starts,
                              CharacterSpan span);

}  // namespace longformer::text
