// Graphemes: what a reader takes for one character, as `tokenizers` finds them.
#pragma once

#include <cstdint>

namespace longformer::text {

enum class GraphemeClass : std::uint8_t {
  other,
  control,
  extend,
  spacing_mark,
  prepend,
  pictographic,
  consonant,        ///< Part of an Indic conjunct.
  linker,           ///< Joins consonants to a conjunct; extends.
  conjunct_extend,  ///< May stand inside a conjunct; extends.
  joiner,           ///< U+200D
  carriage_return,
  line_feed,
  hangul_l,
  hangul_v,
  hangul_t,
  hangul_lv,
  hangul_lvt,
  regional_indicator,  ///< Two of them are a flag.
};

GraphemeClass grapheme_class(char32_t character);

/// Reads a text from its beginning.
class GraphemeBreaks {
 public:
  /// Whether the next character of the text begins a grapheme.
  bool begins(char32_t character);

 private:
  enum class Conjunct : std::uint8_t { none, consonant, linked };
  enum class Pictogram : std::uint8_t { none, extended, joined };
  bool joins(GraphemeClass next) const;

  GraphemeClass previous_ = GraphemeClass::control;
  Conjunct conjunct_ = Conjunct::none;
  Pictogram pictogram_ = Pictogram::none;
  /// Whether the last character is the first half of a flag.
  bool half_flag_ = false;
};

}  // namespace longformer::text
