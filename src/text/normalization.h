// Normalisation of a text, character by character, with the place that each character comes from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/character_map.h"

namespace longformer::text {

enum class NormalizationKind {
  clean,                 ///< BERT: drop control characters, whitespace becomes a space.
  space_chinese,         ///< BERT: spaces around CJK characters.
  decompose,             ///< Canonical decomposition (NFD).
  compose,               ///< Canonical composition (NFC).
  decompose_compatible,  ///< NFKD
  compose_compatible,    ///< NFKC
  strip_nonspacing,      ///< Drop \p{Mn}.
  strip_marks,           ///< Drop \p{M}.
  lowercase,
  nmt,         ///< SentencePiece: drop control characters, odd spaces become spaces.
  map,         ///< A character map of SentencePiece.
  strip_ends,  ///< Drop whitespace at the ends of the text.
  replace,
  prepend,
};

/// One step over the whole text; a tokenizer has a list of them.
struct NormalizationStep {
  explicit NormalizationStep(NormalizationKind step) : kind(step) {}
  NormalizationKind kind;
  bool left = true, right = true;  ///< strip_ends: where.
  std::u32string pattern;          ///< replace: what, never empty.
  /// replace: runs of so many or more of the one character of the pattern; 0: the pattern as it is.
  std::size_t run = 0;
  /// replace: runs of two or more of any whitespace, line breaks and tabs alone too, instead.
  bool joins_spaces = false;
  std::u32string content;                   ///< replace, prepend: by what.
  std::shared_ptr<const CharacterMap> map;  ///< map
};

/// Whether one of the steps is of this kind.
bool contains(const std::vector<NormalizationStep>& steps, NormalizationKind kind);

/// A character and the bytes of the original text that it stands for.
struct NormalizedCharacter {
  char32_t value;
  std::uint32_t begin;
  std::uint32_t end;
};

/// Which ends of the whole text a part of it has.
struct TextEnds {
  bool begin = true;
  bool end = true;
};

/// The bytes [begin, end) of valid UTF-8 text after all steps.
std::vector<NormalizedCharacter> normalize(const std::vector<NormalizationStep>& steps,
                                           std::string_view text, std::size_t begin,
                                           std::size_t end, TextEnds ends = {});

/// A text in its composed form (NFC); bytes that are no UTF-8 as they are.
std::string composed(std::string_view text);
/// Whether two texts have one composed form, so that they look alike.
bool are_equivalent(std::string_view a, std::string_view b);

/// Whether a map drops what the part begins with: `tokenizers` then places all characters of the
/// text too far to the left, so that parts cannot be normalised one by one.
bool drops_beginning(const std::vector<NormalizationStep>& steps, std::string_view part);

/// Whether a step looks beyond canonical combination: at the ends of a text or at several letters.
bool depends_on_context(const std::vector<NormalizationStep>& steps);

}  // namespace longformer::text
