#include "tasks/question_answering/answer_matching.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "text/python_text.h"

namespace longformer::tasks {
namespace {

/// Characters that the evaluation turns into a space, or that Python's str.split() takes as one.
bool is_blank(char32_t c) {
  if (c < 0x80) {
    const bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    const bool control = c < 9 || (c > 13 && c < 28) || c == 0x7f;
    return !alphanumeric && !control;
  }
  return c == U'‘' || c == U'’' || c == U'´' ||
         (text::character_flags(c) & text::CharacterFlags::whitespace) != 0;
}

/// Splits a text into the words that are left after normalisation, and calls take(word, span) with
/// each.
template <typename Take>
class WordSplitter {
 public:
  explicit WordSplitter(const Take& take) : take_(take) {}

  void split(std::string_view text) {
    text::each_lowered(text, [this](char32_t c, std::int64_t place) { add(c, place); });
    end_run();
    end_word();
  }

 private:
  void add(char32_t c, std::int64_t place) {
    if (is_blank(c)) {
      end_run();
      end_word();
      return;
    }
    if (!text::is_python_word(c)) {
      end_run();
    } else if (run_ == kNoRun) {
      run_ = word_.size();
      before_run_ = span_.end;
    }
    if (word_.empty()) span_.begin = place;
    span_.end = place + 1;
    text::append_utf8(c, word_);
  }

  /// An article is a whole run of letters and digits, and parts what stands on its two sides.
  void end_run() {
    if (run_ == kNoRun) return;
    const std::string_view run = std::string_view(word_).substr(run_);
    if (run == "a" || run == "an" || run == "the") {
      word_.resize(run_);
      span_.end = before_run_;
      end_word();
    }
    run_ = kNoRun;
  }

  void end_word() {
    if (!word_.empty()) take_(std::as_const(word_), span_);
    word_.clear();
  }

  static constexpr std::size_t kNoRun = static_cast<std::size_t>(-1);

  const Take& take_;
  std::string word_;
  CharacterSpan span_ = {};
  /// Begin of the last run of letters and digits in the word, and the character where the word
  /// ended before.
  std::size_t run_ = kNoRun;
  std::int64_t before_run_ = 0;
};

template <typename Take>
void each_trivia_word(std::string_view text, const Take& take) {
  WordSplitter<Take>(take).split(text);
}

/// A text as characters of which each stands for both cases.
std::vector<std::uint32_t> without_case(std::string_view text) {
  std::vector<std::uint32_t> characters;
  std::u32string lower;
  for (std::size_t at = 0; at < text.size();) {
    const text::DecodedCharacter character = text::decode_character(text, at);
    at += character.size;
    lower.clear();
    text::append_lowercase(character.value, lower);
    const char32_t first = lower.empty() ? character.value : lower.front();
    characters.push_back(first == U'ς' ? U'σ' : first);
  }
  return characters;
}

}  // namespace

std::string normalized_trivia_answer(std::string_view text) {
  std::string result;
  each_trivia_word(text, [&](const std::string& word, const CharacterSpan&) {
    if (!result.empty()) result += ' ';
    result += word;
  });
  return result;
}

void AnswerMatcher::Tree::add(std::span<const std::uint32_t> symbols) {
  if (symbols.empty()) return;
  std::uint32_t node = 0;
  for (const std::uint32_t symbol : symbols) {
    const auto fresh = static_cast<std::uint32_t>(ends.size());
    const auto [edge, added] = edges.try_emplace(key(node, symbol), fresh);
    if (added) ends.push_back(false);
    node = edge->second;
  }
  ends[node] = true;
}

AnswerMatcher::AnswerMatcher(std::span<const std::string> answers, AnswerMatching matching)
    : matching_(matching) {
  for (const std::string& answer : answers) {
    if (matching == AnswerMatching::substring) {
      tree_.add(without_case(answer));
      continue;
    }
    std::vector<std::uint32_t> symbols;
    each_trivia_word(answer, [&](const std::string& word, const CharacterSpan&) {
      const auto fresh = static_cast<std::uint32_t>(words_.size());
      symbols.push_back(words_.try_emplace(word, fresh).first->second);
    });
    tree_.add(symbols);
  }
}

std::vector<CharacterSpan> AnswerMatcher::find(std::string_view text) const {
  return matching_ == AnswerMatching::words ? find_words(text) : find_substrings(text);
}

std::vector<CharacterSpan> AnswerMatcher::find_words(std::string_view text) const {
  std::vector<std::uint32_t> symbols;
  std::vector<CharacterSpan> spans;
  each_trivia_word(text, [&](const std::string& word, const CharacterSpan& span) {
    const auto known = words_.find(word);
    symbols.push_back(known == words_.end() ? Tree::kNone : known->second);
    spans.push_back(span);
  });
  std::vector<CharacterSpan> found;
  for (std::size_t first = 0; first < symbols.size(); ++first) {
    std::uint32_t node = 0;
    for (std::size_t i = first; i < symbols.size() && symbols[i] != Tree::kNone; ++i) {
      node = tree_.next(node, symbols[i]);
      if (node == Tree::kNone) break;
      if (tree_.ends[node]) found.push_back({spans[first].begin, spans[i].end});
    }
  }
  return found;
}

std::vector<CharacterSpan> AnswerMatcher::find_substrings(std::string_view text) const {
  const std::vector<std::uint32_t> characters = without_case(text);
  // End of the last match of the answer at each node.
  std::vector<std::size_t> free_from(tree_.ends.size(), 0);
  std::vector<CharacterSpan> found;
  for (std::size_t first = 0; first < characters.size(); ++first) {
    std::uint32_t node = 0;
    for (std::size_t i = first; i < characters.size(); ++i) {
      node = tree_.next(node, characters[i]);
      if (node == Tree::kNone) break;
      if (!tree_.ends[node] || free_from[node] > first) continue;
      found.push_back({static_cast<std::int64_t>(first), static_cast<std::int64_t>(i) + 1});
      free_from[node] = i + 1;
    }
  }
  return found;
}

}  // namespace longformer::tasks
