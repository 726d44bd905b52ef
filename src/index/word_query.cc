#include "index/word_query.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <utility>

namespace longformer::index {
namespace {

/// What is between words. With an apostrophe inside, "dog's" would ask for "dog" before "s", and
/// leave out most passages about the dog.
constexpr std::string_view kBetween = " \t\r\n\f\v'";

/// Whether there may be a word: a letter, a digit, or anything beyond ASCII.
bool has_word(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char byte) { return byte >= 0x80 || std::isalnum(byte) != 0; });
}

/// A word without punctuation around it, in lower case, as far as it is ASCII; so that "Dog?" and
/// "dog" are one.
std::string plain_word(std::string_view word) {
  const auto is_around = [](unsigned char byte) { return std::ispunct(byte) != 0; };
  while (!word.empty() && is_around(word.front())) word.remove_prefix(1);
  while (!word.empty() && is_around(word.back())) word.remove_suffix(1);
  std::string plain(word);
  for (char& letter : plain) {
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return plain;
}

void join(std::string& query, std::string_view with, std::string_view term) {
  if (!query.empty()) query += with;
  query += term;
}

/// Words behind each other as FTS5 wants them; they hold no quotation mark.
std::string quoted(std::string_view words) { return '"' + std::string(words) + '"'; }

/// Typographic quotation marks and apostrophes as plain ones.
std::string with_plain_marks(std::string_view text) {
  std::string plain(text);
  constexpr std::array<std::pair<std::string_view, const char*>, 3> kMarks = {
      {{"\u201c", "\""}, {"\u201d", "\""}, {"\u2019", "'"}}};
  for (const auto& [mark, plain_mark] : kMarks) {
    for (std::size_t at = plain.find(mark); at != std::string::npos; at = plain.find(mark, at)) {
      plain.replace(at, mark.size(), plain_mark);
    }
  }
  return plain;
}

}  // namespace

WordQuery::WordQuery(std::string_view text, QuotationMarks marks) {
  std::string plain = with_plain_marks(text);
  if (marks == QuotationMarks::ignored) std::replace(plain.begin(), plain.end(), '"', ' ');
  std::string_view question = plain;
  bool is_phrase = false;
  while (true) {
    const std::size_t mark = question.find('"');
    std::string_view part = question.substr(0, mark);
    // A mark without its second one is no phrase.
    if (is_phrase && mark != std::string_view::npos) {
      if (add(part)) join(required_, " AND ", quoted(part));
    } else {
      while (!part.empty()) {
        part.remove_prefix(std::min(part.find_first_not_of(kBetween), part.size()));
        const std::size_t end = std::min(part.find_first_of(kBetween), part.size());
        add(plain_word(part.substr(0, end)));
        part.remove_prefix(end);
      }
    }
    if (mark == std::string_view::npos) break;
    question.remove_prefix(mark + 1);
    is_phrase = !is_phrase;
  }
  for (const std::string& term : terms_) join(any_, " OR ", term);
}

bool WordQuery::add(std::string_view words) {
  if (!has_word(words)) return false;
  std::string term = quoted(words);
  if (std::find(terms_.begin(), terms_.end(), term) == terms_.end()) {
    terms_.push_back(std::move(term));
  }
  return true;
}

}  // namespace longformer::index
