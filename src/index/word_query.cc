#include "index/word_query.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "index/quotations.h"
#include "text/search_words.h"
#include "text/unicode.h"

namespace longformer::index {
namespace {

/// Further words of a question count for nothing. FTS5 takes time in the square of their number: of
/// 200,000 words half a minute.
constexpr std::size_t kMostTerms = 1024;

/// Whether a character between two words makes one word of them, as "covid-19". With an apostrophe
/// inside, "dog's" would ask for "dog" before "s", and leave out most passages about the dog.
bool joins(char32_t c) {
  constexpr std::u32string_view kApart = U"'\"`",
                                kTogether = U"\u00b7\u2010\u2011\u2013\u05be\u05f3\u05f4";
  if (c > U' ' && c < 0x7f) return kApart.find(c) == std::u32string_view::npos;
  return text::is_ignorable(c) || text::is_accent(c) ||
         kTogether.find(c) != std::u32string_view::npos;
}

bool joins(std::string_view between) {
  for (std::size_t i = 0; i < between.size();) {
    const text::DecodedCharacter one = text::decode_character(between, i);
    if (!joins(one.value)) return false;
    i += one.size;
  }
  return true;
}

/// The words of a text in their order.
std::vector<text::SearchWord> words_of(std::string_view text) {
  std::vector<text::SearchWord> words;
  text::WordSplitter splitter{std::string(text::kNoLanguage)};
  splitter.split(text, [&](const text::SearchWord& word) { words.push_back(word); });
  return words;
}

}  // namespace

std::string fts_string(std::string_view term) { return '"' + std::string(term) + '"'; }

WordQuery::WordQuery(std::string_view question, QuotationMarks marks) {
  std::size_t done = 0;
  if (marks == QuotationMarks::phrases) {
    for (const Quotation& one : quotations(question)) {
      add_words(question.substr(done, one.outer_begin - done));
      add_phrase(question.substr(one.begin, one.end - one.begin));
      done = one.outer_end;
    }
  }
  add_words(question.substr(done));
}

std::string WordQuery::required() const {
  std::string query;
  for (const std::string& phrase : phrases_) {
    query += (query.empty() ? "" : " AND ") + fts_string(phrase);
  }
  return query;
}

void WordQuery::add_words(std::string_view text) {
  const std::vector<text::SearchWord> words = words_of(text);
  std::string term;
  const auto finish = [&] {
    if (!term.empty()) add(term);
    term.clear();
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const text::SearchWord& word = words[i];
    const text::SearchWord* before = i == 0 ? nullptr : &words[i - 1];
    if (word.is_character) {
      finish();
      const bool is_followed = i + 1 < words.size() && words[i + 1].continues;
      if (word.continues) {
        add(before->text + word.text);
      } else if (!is_followed) {
        add(word.text);
      }
      continue;
    }
    const bool is_joined = before != nullptr && !before->is_character &&
                           before->end <= word.begin &&
                           joins(text.substr(before->end, word.begin - before->end));
    if (!is_joined) finish();
    term += (term.empty() ? "" : " ") + word.text;
  }
  finish();
}

void WordQuery::add_phrase(std::string_view text) {
  std::string phrase;
  for (const text::SearchWord& word : words_of(text)) {
    phrase += (phrase.empty() || word.continues ? "" : " ") + word.text;
  }
  if (phrase.empty()) return;
  if (!add(phrase)) return;
  if (std::find(phrases_.begin(), phrases_.end(), phrase) == phrases_.end()) {
    phrases_.push_back(phrase);
  }
}

bool WordQuery::add(const std::string& term) {
  if (known_.contains(term)) return true;
  if (terms_.size() == kMostTerms) return false;
  known_.insert(term);
  terms_.push_back(term);
  return true;
}

}  // namespace longformer::index
