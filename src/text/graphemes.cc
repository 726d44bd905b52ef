#include "text/graphemes.h"

#include <algorithm>
#include <iterator>

#include "text/grapheme_classes.h"

namespace longformer::text {
namespace {

using Class = GraphemeClass;

bool in(char32_t character, char32_t first, char32_t last) {
  return character >= first && character <= last;
}

bool extends(Class value) {
  return value == Class::extend || value == Class::linker || value == Class::conjunct_extend;
}

bool is_control(Class value) {
  return value == Class::control || value == Class::carriage_return || value == Class::line_feed;
}

Class hangul_class(char32_t c) {
  if (in(c, 0xac00, 0xd7a3)) return (c - 0xac00) % 28 == 0 ? Class::hangul_lv : Class::hangul_lvt;
  if (in(c, 0x1100, 0x115f) || in(c, 0xa960, 0xa97c)) return Class::hangul_l;
  if (in(c, 0x1160, 0x11a7) || in(c, 0xd7b0, 0xd7c6)) return Class::hangul_v;
  if (in(c, 0x11a8, 0x11ff) || in(c, 0xd7cb, 0xd7fb)) return Class::hangul_t;
  return Class::other;
}

}  // namespace

GraphemeClass grapheme_class(char32_t c) {
  if (in(c, ' ', '~')) return Class::other;
  if (c == '\r') return Class::carriage_return;
  if (c == '\n') return Class::line_feed;
  if (c == 0x200d) return Class::joiner;
  if (in(c, 0x1f1e6, 0x1f1ff)) return Class::regional_indicator;
  const auto* range = std::lower_bound(
      std::begin(grapheme_classes), std::end(grapheme_classes), c,
      [](const CodePointRange& r, char32_t value) { return char32_t{r.last} < value; });
  const bool found = range != std::end(grapheme_classes) && range->first <= c;
  return found ? static_cast<Class>(range->value) : hangul_class(c);
}

bool GraphemeBreaks::joins(GraphemeClass next) const {
  if (previous_ == Class::carriage_return && next == Class::line_feed) return true;
  if (is_control(previous_) || is_control(next)) return false;
  if (extends(next) || next == Class::joiner || next == Class::spacing_mark) return true;
  const bool before_vowel = previous_ == Class::hangul_v || previous_ == Class::hangul_lv;
  switch (next) {
    case Class::hangul_l:
    case Class::hangul_lv:
    case Class::hangul_lvt:
      if (previous_ == Class::hangul_l) return true;
      break;
    case Class::hangul_v:
      if (previous_ == Class::hangul_l || before_vowel) return true;
      break;
    case Class::hangul_t:
      if (before_vowel || previous_ == Class::hangul_t || previous_ == Class::hangul_lvt) {
        return true;
      }
      break;
    case Class::consonant:
      if (conjunct_ == Conjunct::linked) return true;
      break;
    case Class::pictographic:
      if (pictogram_ == Pictogram::joined) return true;
      break;
    case Class::regional_indicator:
      if (half_flag_) return true;
      break;
    default:
      break;
  }
  return previous_ == Class::prepend;
}

bool GraphemeBreaks::begins(char32_t character) {
  const auto next = grapheme_class(character);
  const bool joined = joins(next);
  if (next == Class::consonant) {
    conjunct_ = Conjunct::consonant;
  } else if (next == Class::linker && conjunct_ != Conjunct::none) {
    conjunct_ = Conjunct::linked;
  } else if (next != Class::conjunct_extend && next != Class::joiner) {
    conjunct_ = Conjunct::none;
  }
  if (next == Class::pictographic) {
    pictogram_ = Pictogram::extended;
  } else if (pictogram_ == Pictogram::extended && next == Class::joiner) {
    pictogram_ = Pictogram::joined;
  } else if (pictogram_ != Pictogram::extended || !extends(next)) {
    pictogram_ = Pictogram::none;
  }
  half_flag_ = next == Class::regional_indicator && !half_flag_;
  previous_ = next;
  return !joined;
}

}  // namespace longformer::text
