#include "index/quotations.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "text/search_words.h"
#include "text/unicode.h"

namespace longformer::index {
namespace {

/// A mark that opens, and those that may close what it opened.
struct Pair {
  char32_t opening;
  std::u32string_view closing;
  /// Whether the mark is on one side of a word alone, so that the word before it may end there.
  bool only_opens;
};

constexpr std::array<Pair, 21> kPairs = {{
    {U'"', U"\"", false},
    {U'\'', U"'", false},
    {0x00ab, U"\u00bb", true},         // « »
    {0x00bb, U"\u00ab\u00bb", false},  // » « in German, » » in Swedish
    {0x2018, U"\u2019", true},         // ‘ ’
    {0x2019, U"\u2019", false},        // ’ ’ in Swedish
    {0x201a, U"\u2018\u2019", true},   // ‚ ‘ in German, ‚ ’ in Polish
    {0x201b, U"\u2019", true},
    {0x201c, U"\u201d", true},                // “ ”
    {0x201d, U"\u201d", false},               // ” ” in Swedish
    {0x201e, U"\u201c\u201d\u201f\"", true},  // „ “ in German, „ ” in Polish
    {0x201f, U"\u201d", true},
    {0x2039, U"\u203a", true},         // ‹ ›
    {0x203a, U"\u2039\u203a", false},  // › ‹
    {0x2e42, U"\u201c\u201d", true},
    {0x300c, U"\u300d", true},        // 「 」
    {0x300e, U"\u300f", true},        // 『 』
    {0x301d, U"\u301e\u301f", true},  // 〝 〞
    {0xfe41, U"\ufe42", true},
    {0xfe43, U"\ufe44", true},
    {0xff62, U"\uff63", true},
}};

struct Character {
  char32_t value = 0;
  std::size_t begin = 0, end = 0;
};

/// Characters of a text that somebody sees.
std::vector<Character> characters_of(std::string_view text) {
  std::vector<Character> characters;
  for (std::size_t i = 0; i < text.size();) {
    const text::DecodedCharacter one = text::decode_character(text, i);
    char32_t value = one.value;
    if (value == 0xff02) value = U'"';
    if (value == 0xff07) value = U'\'';
    if (!text::is_ignorable(value)) characters.push_back({value, i, i + one.size});
    i += one.size;
  }
  return characters;
}

bool is_blank(char32_t c) {
  return (text::character_flags(c) & text::CharacterFlags::whitespace) != 0;
}

/// Whether words of a script with blanks would go on over a mark between them.
bool holds_together(char32_t c) {
  return (text::is_word_character(c) || text::is_accent(c)) && !text::is_without_blanks(c);
}

class Marks {
 public:
  explicit Marks(std::string_view text) : characters_(characters_of(text)) {}

  std::vector<Quotation> pairs() {
    std::vector<Quotation> found;
    for (std::size_t i = 0; i < characters_.size(); ++i) {
      const std::optional<std::size_t> close = closing_of(i);
      if (!close) continue;
      found.push_back({.begin = characters_[i].end,
                       .end = characters_[*close].begin,
                       .outer_begin = characters_[i].begin,
                       .outer_end = characters_[*close].end});
      i = *close;
    }
    return found;
  }

 private:
  char32_t at(std::size_t i) const { return i < characters_.size() ? characters_[i].value : U' '; }
  char32_t before(std::size_t i) const { return i == 0 ? U' ' : characters_[i - 1].value; }

  /// The mark that closes what the mark at `i` opens.
  std::optional<std::size_t> closing_of(std::size_t i) {
    const auto* pair = std::find_if(kPairs.begin(), kPairs.end(),
                                    [&](const Pair& one) { return one.opening == at(i); });
    if (pair == kPairs.end()) return std::nullopt;
    // French puts blanks inside « ».
    const bool may_be_wide = at(i) == 0xab || at(i) == 0x2039;
    const bool is_wide = may_be_wide && is_blank(at(i + 1));
    if (!opens(i, *pair, is_wide)) return std::nullopt;
    bool& is_unclosed = unclosed_[static_cast<std::size_t>(pair - kPairs.begin())][is_wide];
    if (is_unclosed) return std::nullopt;
    bool has_word = false;
    for (std::size_t k = i + 1; k < characters_.size(); ++k) {
      has_word = has_word || text::is_word_character(at(k));
      const bool is_close = pair->closing.find(at(k)) != std::u32string_view::npos;
      if (is_close && has_word && closes(k, is_wide)) return k;
    }
    is_unclosed = true;
    return std::nullopt;
  }

  bool opens(std::size_t i, const Pair& pair, bool is_wide) const {
    std::size_t next = i + 1;
    while (is_wide && next < characters_.size() && is_blank(at(next))) ++next;
    if (is_blank(at(next)) || next >= characters_.size()) return false;
    return pair.only_opens || !holds_together(before(i));
  }

  bool closes(std::size_t k, bool is_wide) const {
    if (is_blank(before(k)) && !is_wide) return false;
    return !holds_together(at(k + 1)) || !holds_together(before(k));
  }

  std::vector<Character> characters_;
  /// Pairs that nothing closes from the last place where one was looked for, narrow and wide.
  std::array<std::array<bool, 2>, kPairs.size()> unclosed_ = {};
};

}  // namespace

std::vector<Quotation> quotations(std::string_view text) { return Marks(text).pairs(); }

}  // namespace longformer::index
