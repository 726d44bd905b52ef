// Turns tokens back into text.
#pragma once

#include <string>
#include <vector>

namespace longformer::text {

enum class DecodingKind {
  byte_level,     ///< Characters that stand for bytes become these.
  word_piece,     ///< A space before tokens that do not continue a word.
  metaspace,      ///< The replacement becomes a space, or nothing in the first token.
  replace,        ///< One text by another.
  byte_fallback,  ///< Tokens like <0x0A> become bytes.
  fuse,           ///< All tokens become one.
  strip,          ///< Some characters of one kind at the ends of each token are dropped.
};

/// One step over all tokens; a tokenizer has a list of them. Without steps, spaces join tokens.
struct DecodingStep {
  DecodingKind kind = DecodingKind::metaspace;
  std::string prefix = "##";  ///< word_piece
  bool cleanup = true;        ///< word_piece: drops the space before punctuation and contractions.
  std::string pattern = "\u2581";   ///< metaspace, replace, strip: what is looked for.
  std::string content = {};         ///< replace
  bool drops_first = true;          ///< metaspace
  std::size_t start = 0, stop = 0;  ///< strip: how many at most.
};

/// The text of the tokens, in UTF-8.
std::string decode(const std::vector<DecodingStep>& steps, std::vector<std::string> tokens);

}  // namespace longformer::text
