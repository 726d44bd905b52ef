#include "text/boundaries.h"

#include <algorithm>
#include <iterator>

#include "text/boundary_classes.h"
#include "text/graphemes.h"
#include "text/unicode.h"

namespace longformer::text {
namespace {

/// In the order of tools/make_boundary_classes.py.
enum class BoundaryClass : std::uint8_t {
  other,
  invisible,    ///< Marks and format characters: a word goes on behind them.
  blank,        ///< White space and the zero-width space.
  stop,         ///< . ! ? and their kin, which may stand inside a word.
  terminal,     ///< A mark that ends a sentence wherever it stands.
  ellipsis,     ///< May end a sentence.
  opening,      ///< A bracket or quotation mark.
  closing,      ///< A bracket or quotation mark.
  quote,        ///< A quotation mark that opens and closes.
  pause,        ///< A comma and its kin: the sentence goes on.
  punctuation,  ///< All other punctuation.
  nonstarter,   ///< A letter that belongs to the one before it, such as small kana.
  katakana,
  unspaced,  ///< A letter of a script without blanks.
};
using Class = BoundaryClass;

Class boundary_class(char32_t c) {
  const auto* range = std::lower_bound(
      std::begin(boundary_classes), std::end(boundary_classes), c,
      [](const CodePointRange& r, char32_t value) { return char32_t{r.last} < value; });
  const bool found = range != std::end(boundary_classes) && range->first <= c;
  return found ? static_cast<Class>(range->value) : Class::other;
}

bool is_unspaced(Class value) { return value >= Class::nonstarter; }
/// Whether it may end a sentence.
bool is_end(Class value) { return value >= Class::stop && value <= Class::ellipsis; }
bool is_blank_or_quotation(Class value) {
  return value == Class::blank || (value >= Class::opening && value <= Class::quote);
}
bool is_punctuation(Class value) { return value >= Class::stop && value <= Class::punctuation; }

/// How many lines a blank ends; the paragraph separator has an empty one with it.
int line_ends(char32_t blank, char32_t before) {
  if (blank == 0x2029) return 2;
  if (blank == '\n') return before == '\r' ? 0 : 1;
  return blank == '\r' || blank == 0x2028 || blank == 0x85 ? 1 : 0;
}

struct Character {
  char32_t value = '\n';
  Class kind = Class::blank;
  bool is_word = false;
};

Character character_of(char32_t value) {
  return {value, boundary_class(value), (character_flags(value) & CharacterFlags::word) != 0};
}

/// Reads a text from its beginning, character by character that is not invisible.
class Reader {
 public:
  /// The boundary before the next character.
  Boundary before(const Character& next) {
    const bool begins = begins_sentence(next);
    const Boundary boundary = judged(next, begins);
    if (begins) mark_ = Class::other;
    follow(next);
    lines_ = next.kind == Class::blank ? lines_ + line_ends(next.value, last_.value) : 0;
    last_ = next;
    return boundary;
  }

 private:
  Boundary judged(const Character& next, bool begins_sentence) const {
    if (next.kind == Class::blank) return Boundary::word;
    if (last_.kind == Class::blank && lines_ >= 2) return Boundary::paragraph;
    if (begins_sentence) return Boundary::sentence;
    if (last_.kind == Class::blank) return Boundary::word;
    if (is_unspaced(last_.kind) || is_unspaced(next.kind)) return without_blank(next);
    return last_.is_word && next.is_word ? Boundary::inside_word : Boundary::beside_mark;
  }

  /// Whether a sentence has ended before the character.
  bool begins_sentence(const Character& next) const {
    if (mark_ == Class::other || next.kind == Class::blank) return false;
    if (next.kind == Class::closing || is_end(next.kind)) return false;
    if (last_.kind == Class::blank) return mark_ != Class::ellipsis || !is_lowercase(next.value);
    if (next.kind == Class::quote || next.kind == Class::pause) return false;
    if (mark_ == Class::terminal) return true;
    // Chinese and Japanese are written with these marks too.
    return mark_ == Class::stop && is_unspaced(next.kind) && (!is_full_stop_ || behind_unspaced_);
  }

  Boundary without_blank(const Character& next) const {
    if (next.kind == Class::nonstarter) return Boundary::inside_word;
    const bool continues = last_.kind == Class::katakana || last_.kind == Class::nonstarter;
    if (continues && next.kind == Class::katakana) return Boundary::inside_word;
    if (next.kind != Class::opening && is_punctuation(next.kind)) return Boundary::beside_mark;
    if (last_.kind == Class::opening) return Boundary::beside_mark;
    return is_punctuation(last_.kind) ? Boundary::word : Boundary::between_letters;
  }

  /// Keeps the mark that may end a sentence over what closes it and the blank.
  void follow(const Character& next) {
    if (is_end(next.kind)) {
      if (mark_ != Class::terminal) mark_ = next.kind;
      is_full_stop_ = next.value != '!' && next.value != '?';
      if (!is_end(last_.kind)) behind_unspaced_ = is_unspaced(last_.kind);
    } else if (!is_blank_or_quotation(next.kind)) {
      mark_ = Class::other;
    }
  }

  Character last_;
  Class mark_ = Class::other;
  bool is_full_stop_ = false;
  bool behind_unspaced_ = false;
  int lines_ = 0;
};

}  // namespace

std::vector<Boundary> boundaries(std::string_view text) {
  std::vector<Boundary> result;
  result.reserve(text.size() + 1);
  GraphemeBreaks breaks;
  Reader reader;
  std::size_t open = 0;  // the first place behind the last visible character
  for (std::size_t place = 0; place < text.size();) {
    const DecodedCharacter decoded = decode_character(text, place);
    place += decoded.size;
    const bool begins = breaks.begins(decoded.value);
    result.push_back(begins ? Boundary::beside_mark : Boundary::inside_grapheme);
    const Character character = character_of(decoded.value);
    if (character.kind == Class::invisible && result.size() > 1) continue;
    const Boundary boundary = reader.before(character);
    // An invisible character between two letters of a word is inside the word too.
    const bool joins = boundary == Boundary::inside_word || boundary == Boundary::between_letters;
    for (std::size_t i = joins ? open : result.size() - 1; i < result.size(); ++i) {
      if (result[i] != Boundary::inside_grapheme) result[i] = boundary;
    }
    open = result.size();
  }
  if (!result.empty()) result.front() = Boundary::paragraph;
  result.push_back(Boundary::paragraph);
  return result;
}

CharacterSpan whole_graphemes(std::string_view text, std::span<const std::size_t> starts,
                              CharacterSpan span) {
  if (span.begin >= span.end) return span;
  // No grapheme of a language is longer.
  constexpr std::int64_t kLongest = 64;
  const auto count = static_cast<std::int64_t>(starts.size()) - 1;
  const auto value = [&](std::int64_t character) {
    return decode_character(text, starts[static_cast<std::size_t>(character)]).value;
  };
  // One begins between two printable characters of ASCII.
  const auto is_printable = [&](std::int64_t i) {
    return i < count && value(i) >= ' ' && value(i) <= '~';
  };
  std::int64_t from = span.begin;
  while (from > 0 && from > span.begin - kLongest &&
         !(is_printable(from) && is_printable(from - 1))) {
    --from;
  }
  GraphemeBreaks breaks;
  CharacterSpan whole = span;
  for (std::int64_t at = from; at < count && at < span.end + kLongest; ++at) {
    const bool begins = breaks.begins(value(at)) || at == from;
    if (begins && at <= span.begin) whole.begin = at;
    if (begins && at >= span.end) {
      whole.end = at;
      return whole;
    }
  }
  whole.end = std::min(count, span.end + kLongest);
  return whole;
}

}  // namespace longformer::text
