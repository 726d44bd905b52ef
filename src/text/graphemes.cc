#include "text/graphemes.h"

#include <algorithm>
#include <iterator>

#include "text/grapheme_classes.h"

namespace longformer::text {
namespace {

bool in(char32_t character, char32_t first, char32_t last) {
  return character >= first && character <= last;
}

bool extends(GraphemeClass value) {
  return value == GraphemeClass::extend || value == GraphemeClass::linker ||
         value == GraphemeClass::conjunct_extend;
}

bool is_control(GraphemeClass value) {
  return value == GraphemeClass::control || value == GraphemeClass::carriage_return ||
         value == GraphemeClass::line_feed;
}

GraphemeClass hangul_class(char32_t c) {
  if (in(c, 0xac00, 0xd7a3))
    return (c - 0xac00) % 28 == 0 ? GraphemeClass::hangul_lv : GraphemeClass::hangul_lvt;
  if (in(c, 0x1100, 0x115f) || in(c, 0xa960, 0xa97c)) return GraphemeClass::hangul_l;
  if (in(c, 0x1160, 0x11a7) || in(c, 0xd7b0, 0xd7c6)) return GraphemeClass::hangul_v;
  if (in(c, 0x11a8, 0x11ff) || in(c, 0xd7cb, 0xd7fb)) return GraphemeClass::hangul_t;
  return GraphemeClass::other;
}

}  // namespace

GraphemeClass grapheme_class(char32_t c) {
  if (in(c, ' ', '~')) return GraphemeClass::other;
  if (c == '\r') return GraphemeClass::carriage_return;
  if (c == '\n') return GraphemeClass::line_feed;
  if (c == 0x200d) return GraphemeClass::joiner;
  if (in(c, 0x1f1e6, 0x1f1ff)) return GraphemeClass::regional_indicator;
  const auto* range = std::lower_bound(
      std::begin(grapheme_classes), std::end(grapheme_classes), c,
      [](const CodePointRange& r, char32_t value) { return char32_t{r.last} < value; });
  const bool found = range != std::end(grapheme_classes) && range->first <= c;
  return found ? static_cast<GraphemeClass>(range->value) : hangul_class(c);
}

bool GraphemeBreaks::joins(GraphemeClass next) const {
  if (previous_ == GraphemeClass::carriage_return && next == GraphemeClass::line_feed) return true;
  if (is_control(previous_) || is_control(next)) return false;
  if (extends(next) || next == GraphemeClass::joiner || next == GraphemeClass::spacing_mark)
    return true;
  const bool before_vowel =
      previous_ == GraphemeClass::hangul_v || previous_ == GraphemeClass::hangul_lv;
  switch (next) {
    case GraphemeClass::hangul_l:
    case GraphemeClass::hangul_lv:
    case GraphemeClass::hangul_lvt:
      if (previous_ == GraphemeClass::hangul_l) return true;
      break;
    case GraphemeClass::hangul_v:
      if (previous_ == GraphemeClass::hangul_l || before_vowel) return true;
      break;
    case GraphemeClass::hangul_t:
      if (before_vowel || previous_ == GraphemeClass::hangul_t ||
          previous_ == GraphemeClass::hangul_lvt) {
        return true;
      }
      break;
    case GraphemeClass::consonant:
      if (conjunct_ == Conjunct::linked) return true;
      break;
    case GraphemeClass::pictographic:
      if (pictogram_ == Pictogram::joined) return true;
      break;
    case GraphemeClass::regional_indicator:
      if (half_flag_) return true;
      break;
    default:
      break;
  }
  return previous_ == GraphemeClass::prepend;
}

bool GraphemeBreaks::begins(char32_t character) {
  const auto next = grapheme_class(character);
  const bool joined = joins(next);
  if (next == GraphemeClass::consonant) {
    conjunct_ = Conjunct::consonant;
  } else if (next == GraphemeClass::linker && conjunct_ != Conjunct::none) {
    conjunct_ = Conjunct::linked;
  } else if (next != GraphemeClass::conjunct_extend && next != GraphemeClass::joiner) {
    conjunct_ = Conjunct::none;
  }
  if (next == GraphemeClass::pictographic) {
    pictogram_ = Pictogram::extended;
  } else if (pictogram_ == Pictogram::extended && next == GraphemeClass::joiner) {
    pictogram_ = Pictogram::joined;
  } else if (pictogram_ != Pictogram::extended || !extends(next)) {
    pictogram_ = Pictogram::none;
  }
  half_flag_ = next == GraphemeClass::regional_indicator && !half_flag_;
  previous_ = next;
  return !joined;
}

}  // namespace longformer::text
