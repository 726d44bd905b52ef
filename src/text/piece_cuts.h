// Cutting of normalised text into pieces, as the pre-tokenizers of the package do it.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "text/normalization.h"

namespace longformer::text {

enum class PrefixScheme { first, always, never };

/// Ways to deal with the matches of a pattern, by their names in tokenizer.json.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// One way to cut; a tokenizer has a list of them.
struct PieceCut {
  enum class Kind {
    whitespace,   ///< At whitespace, which is dropped.
    words,        ///< Runs of word characters, and of others that are no whitespace, are pieces.
    metaspace,    ///< Spaces become the replacement, and each of them begins a piece.
    pattern,      ///< At the places of a text.
    punctuation,  ///< At each character that is punctuation.
  };
  Kind kind = Kind::metaspace;
  char32_t replacement = 0x2581;
  PrefixScheme prefix = PrefixScheme::always;  ///< Which pieces get a replacement in front.
  bool split = true;                           ///< Metaspace: cut there.
  std::u32string pattern = {};                 ///< Never empty.
  SplitBehavior behavior = SplitBehavior::isolated;
  bool inverts = false;  ///< Matches are the parts between the places of the pattern.
};

/// Pieces of characters, as half-open ranges.
using PieceRanges = std::vector<std::pair<std::size_t, std::size_t>>;

/// Whether a piece that begins at a place of the original text gets a replacement in front.
bool takes_prefix(std::size_t begin, const PieceCut& cut);

/// Cuts the pieces of some characters again. Metaspace changes the characters too.
void apply(const PieceCut& cut, std::vector<NormalizedCharacter>& characters, PieceRanges& pieces);

}  // namespace longformer::text
