// Normalisation of a text, character by character, with the place that each character comes from.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longformer::text {

/// One step over the whole text; a tokenizer has a list of them.
enum class NormalizationStep {
  clean,             ///< BERT: drop control characters, whitespace becomes a space.
  space_chinese,     ///< BERT: spaces around CJK characters.
  decompose,         ///< Canonical decomposition (NFD).
  compose,           ///< Canonical composition (NFC).
  strip_nonspacing,  ///< Drop \p{Mn}.
  strip_marks,       ///< Drop \p{M}.
  lowercase,
};

/// A character and the bytes of the original text that it stands for.
struct NormalizedCharacter {
  char32_t value;
  std::uint32_t begin;
  std::uint32_t end;
};

/// The bytes [begin, end) of valid UTF-8 text after all steps.
std::vector<NormalizedCharacter> normalize(const std::vector<NormalizationStep>& steps,
                                           std::string_view text, std::size_t begin,
                                           std::size_t end);

}  // namespace longformer::text
