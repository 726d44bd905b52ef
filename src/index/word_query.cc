#include "index/word_query.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace longformer::index {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\f\v";

/// Whether there may be a word: a letter, a digit, or anything beyond ASCII.
bool has_word(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char byte) { return byte >= 0x80 || std::isalnum(byte) != 0; });
}

void join(std::string& query, std::string_view text, std::string_view with) {
  if (!has_word(text)) return;
  if (!query.empty()) query += with;
  // A quotation mark cannot be in it.
  query += '"';
  query += text;
  query += '"';
}

/// Typographic quotation marks as plain ones.
std::string with_plain_marks(std::string_view text) {
  std::string plain(text);
  for (const std::string_view mark : {"\u201c", "\u201d"}) {
    for (std::size_t at = plain.find(mark); at != std::string::npos; at = plain.find(mark, at)) {
      plain.replace(at, mark.size(), "\"");
    }
  }
  return plain;
}

}  // namespace

WordQuery::WordQuery(std::string_view text) {
  const std::string plain = with_plain_marks(text);
  std::string_view question = plain;
  bool is_phrase = false;
  while (true) {
    const std::size_t mark = question.find('"');
    std::string_view part = question.substr(0, mark);
    // A mark without its second one is no phrase.
    if (is_phrase && mark != std::string_view::npos) {
      join(any_, part, " OR ");
      join(required_, part, " AND ");
    } else {
      while (!part.empty()) {
        const std::size_t begin = std::min(part.find_first_not_of(kBlanks), part.size());
        part.remove_prefix(begin);
        const std::size_t end = std::min(part.find_first_of(kBlanks), part.size());
        join(any_, part.substr(0, end), " OR ");
        part.remove_prefix(end);
      }
    }
    if (mark == std::string_view::npos) return;
    question.remove_prefix(mark + 1);
    is_phrase = !is_phrase;
  }
}

}  // namespace longformer::index
