#include "text/characters.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "core/error.h"
#include "text/unicode.h"

namespace longformer::text {
namespace {

constexpr std::array<std::string_view, 10> kDigits = {"zero", "one", "two",   "three", "four",
                                                      "five", "six", "seven", "eight", "nine"};

bool starts_at(std::string_view text, std::size_t at, std::string_view word, bool any_case) {
  if (text.size() - at < word.size()) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char letter = any_case ? ascii_lower(text[at + i]) : text[at + i];
    if (letter != word[i]) return false;
  }
  return true;
}

/// The first of some characters from a place on. Places must not fall, so that a text is read once.
class Next {
 public:
  Next(std::string_view text, std::string_view of) : text_(text), of_(of) {}
  std::size_t from(std::size_t at) {
    if (!known_ || found_ < at) found_ = std::min(text_.find_first_of(of_, at), text_.size());
    known_ = true;
    return found_;
  }

 private:
  std::string_view text_, of_;
  std::size_t found_ = 0;
  bool known_ = false;
};

/// Replacement of a match, and the end of the match.
struct Match {
  std::size_t end = 0;
  std::string by = {};
};

struct Opening {
  std::string_view word;
  bool any_case = false;
};

/// Replaces what matches from an opening on; match(place behind the opening) may refuse.
template <typename Matcher>
void replace(std::string& text, const Opening& opening, const Matcher& match) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    std::optional<Match> found;
    if (starts_at(text, at, opening.word, opening.any_case)) {
      found = match(at + opening.word.size());
    }
    if (found) {
      result += found->by;
      at = found->end;
    } else {
      result += text[at++];
    }
  }
  text = std::move(result);
}

/// Replaces opening, characters other than those of `stop`, and closing.
void replace_between(std::string& text, std::string_view opening, std::string_view stop,
                     std::string_view closing, const std::string& by) {
  Next next(text, stop);
  replace(text, {opening}, [&](std::size_t begin) -> std::optional<Match> {
    const std::size_t end = next.from(begin);
    if (!starts_at(text, end, closing, false)) return std::nullopt;
    return Match{end + closing.size(), by};
  });
}

void replace_word(std::string& text, const Opening& word, const std::string& by) {
  replace(text, word, [&](std::size_t begin) { return std::optional(Match{begin, by}); });
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

/// "|200px"
void remove_widths(std::string& text) {
  replace(text, {"|"}, [&](std::size_t begin) -> std::optional<Match> {
    std::size_t end = begin;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (end == begin || !starts_at(text, end, "px", true)) return std::nullopt;
    return Match{end + 2};
  });
}

/// "[[image:…|": the caption stays.
void remove_images(std::string& text) {
  Next next(text, "[]");
  replace(text, {"[[image:", true}, [&](std::size_t begin) -> std::optional<Match> {
    const std::size_t bar = text.substr(begin, next.from(begin) - begin).rfind('|');
    if (bar == std::string::npos) return std::nullopt;
    return Match{begin + bar + 1};
  });
}

/// "[[category:name|…]]" becomes "[[name]]".
void show_categories(std::string& text) {
  Next bracket(text, "]"), bar(text, "|]");
  replace(text, {"[[category:", true}, [&](std::size_t begin) -> std::optional<Match> {
    const std::size_t end = bracket.from(begin);
    if (!starts_at(text, end, "]]", false)) return std::nullopt;
    return Match{end + 2, "[[" + text.substr(begin, bar.from(begin) - begin) + "]]"};
  });
}

/// "[[fr:…]]": links to other languages.
void remove_languages(std::string& text) {
  Next next(text, "]");
  replace(text, {"[["}, [&](std::size_t begin) -> std::optional<Match> {
    std::size_t colon = begin;
    while (colon < text.size() &&
           ((text[colon] >= 'a' && text[colon] <= 'z') || text[colon] == '-'))
      ++colon;
    if (colon == text.size() || text[colon] != ':') return std::nullopt;
    const std::size_t end = next.from(colon);
    if (!starts_at(text, end, "]]", false)) return std::nullopt;
    return Match{end + 2};
  });
}

/// The part of a page that ends in '>' as its reader sees it.
std::string visible(std::string text) {
  if (text.ends_with('>')) {
    const std::size_t line = text.rfind('\n');
    const std::size_t tag = text.find('<', line == std::string::npos ? 0 : line);
    if (tag != std::string::npos) text.erase(tag);
  }
  replace_word(text, {"&amp;"}, "&");
  replace_word(text, {"&lt;"}, "<");
  replace_word(text, {"&gt;"}, ">");
  replace_between(text, "<ref", "<", "</ref>", "");
  replace_between(text, "<", ">", ">", "");
  replace_between(text, "[http:", "] ", "", "[");
  for (const std::string_view word : {"|thumb", "|left", "|right"}) {
    replace_word(text, {word, true}, "");
  }
  remove_widths(text);
  remove_images(text);
  show_categories(text);
  remove_languages(text);
  replace_between(text, "[[", "|]", "|", "[[");
  replace_between(text, "{{", "}", "}}", "");
  replace_between(text, "{", "}", "}", "");
  std::erase_if(text, [](char letter) { return letter == '[' || letter == ']'; });
  replace_between(text, "&", ";", ";", " ");
  return text;
}

/// Adds the letters of a text, and one space for everything else.
void add_letters(const std::string& text, std::string& to) {
  const auto space = [&to] {
    if (to.empty() || to.back() != ' ') to += ' ';
  };
  space();
  for (const char original : text) {
    const char letter = ascii_lower(original);
    if (letter >= 'a' && letter <= 'z') {
      to += letter;
    } else if (is_digit(letter)) {
      space();
      to += kDigits[static_cast<std::size_t>(letter - '0')];
      to += ' ';
    } else {
      space();
    }
  }
  if (to.back() == ' ') to.pop_back();
}

bool contains_any_case(std::string_view text, std::string_view word) {
  return std::search(text.begin(), text.end(), word.begin(), word.end(),
                     [](char a, char b) { return ascii_lower(a) == b; }) != text.end();
}

}  // namespace

std::string_view name_of(Alphabet alphabet) {
  return alphabet == Alphabet::bytes ? "bytes" : "text8";
}

Alphabet alphabet(const std::string& name) {
  for (const Alphabet known : {Alphabet::bytes, Alphabet::text8}) {
    if (name == name_of(known)) return known;
  }
  fail("alphabet: expected bytes or text8, found \"{}\"", name);
}

std::int64_t alphabet_size(Alphabet alphabet) { return alphabet == Alphabet::bytes ? 256 : 27; }

void check_characters(Alphabet alphabet, std::string_view text, const std::string& name) {
  if (alphabet == Alphabet::bytes) return;
  for (std::size_t i = 0; i < text.size(); ++i) {
    require(text[i] == ' ' || (text[i] >= 'a' && text[i] <= 'z'),
            "{}: byte {}: expected a to z or a space, the alphabet text8, found 0x{:02x}", name, i,
            static_cast<unsigned char>(text[i]));
  }
}

std::vector<std::int32_t> encode_characters(Alphabet alphabet, std::string_view text) {
  std::vector<std::int32_t> ids;
  ids.reserve(text.size());
  for (const char letter : text) {
    if (alphabet == Alphabet::bytes) {
      ids.push_back(static_cast<unsigned char>(letter));
    } else {
      ids.push_back(letter == ' ' ? 0 : letter - 'a' + 1);
    }
  }
  return ids;
}

char decode_character(Alphabet alphabet, std::int32_t id) {
  if (alphabet == Alphabet::bytes) return static_cast<char>(id);
  return id == 0 ? ' ' : static_cast<char>('a' + id - 1);
}

std::string text8_of(std::string_view dump) {
  std::string result;
  bool in_text = false;
  for (std::size_t begin = 0; begin < dump.size();) {
    const std::size_t close = dump.find('>', begin);
    const std::size_t end = close == std::string_view::npos ? dump.size() : close + 1;
    const std::string part(dump.substr(begin, end - begin));
    begin = end;
    if (part.find("<text ") != std::string::npos) in_text = true;
    if (contains_any_case(part, "#redirect")) in_text = false;
    if (!in_text) continue;
    if (part.find("</text>") != std::string::npos) in_text = false;
    add_letters(visible(part), result);
  }
  return result;
}

}  // namespace longformer::text
