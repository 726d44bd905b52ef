#include "tasks/question_answering/answer_metrics.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "text/python_text.h"

namespace longformer::tasks {
namespace {

bool is_punctuation(char32_t c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
         (c >= 123 && c <= 126);
}

/// Spaces of Python's str.split() in addition to White_Space.
bool is_space(char32_t c) {
  return (text::character_flags(c) & text::CharacterFlags::whitespace) != 0 ||
         (c >= 0x1c && c <= 0x1f);
}

std::u32string lower_without_punctuation(std::string_view answer) {
  std::u32string result;
  text::each_lowered(answer, [&](char32_t c, std::int64_t) {
    if (!is_punctuation(c)) result.push_back(c);
  });
  return result;
}

std::vector<std::string> words_of(std::string_view answer) {
  std::vector<std::string> words;
  const std::string normal = normalized_answer(answer);
  for (std::size_t begin = 0; begin < normal.size();) {
    const std::size_t end = std::min(normal.find(' ', begin), normal.size());
    words.push_back(normal.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

double f1_of(std::string_view predicted, std::string_view expected) {
  const std::vector<std::string> found = words_of(predicted), right = words_of(expected);
  if (found.empty() || right.empty()) return found.empty() && right.empty() ? 1 : 0;
  std::unordered_map<std::string_view, int> left;
  for (const std::string& word : right) ++left[word];
  double common = 0;
  for (const std::string& word : found) common += left[word]-- > 0 ? 1 : 0;
  return 2 * common / static_cast<double>(found.size() + right.size());
}

}  // namespace

std::string normalized_answer(std::string_view answer) {
  const std::u32string characters = lower_without_punctuation(answer);
  std::string result;
  for (std::size_t begin = 0; begin < characters.size();) {
    // A run of word characters or of others; articles are whole runs.
    const bool word = text::is_python_word(characters[begin]);
    std::size_t end = begin + 1;
    while (end < characters.size() && text::is_python_word(characters[end]) == word) ++end;
    const std::u32string_view run = std::u32string_view(characters).substr(begin, end - begin);
    const bool article = run == U"a" || run == U"an" || run == U"the";
    for (const char32_t c : run) {
      if (!article && !is_space(c)) {
        text::append_utf8(c, result);
      } else if (!result.empty() && !result.ends_with(' ')) {
        result += ' ';
      }
    }
    begin = end;
  }
  if (result.ends_with(' ')) result.pop_back();
  return result;
}

AnswerScores score_answer(std::string_view predicted, std::span<const std::string> expected) {
  AnswerScores best;
  const std::string normal = normalized_answer(predicted);
  bool any = false;
  for (const std::string& answer : expected) {
    const std::string right = normalized_answer(answer);
    if (right.empty()) continue;
    any = true;
    best.exact_match = std::max(best.exact_match, normal == right ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, f1_of(predicted, answer));
  }
  if (any) return best;
  const double right = normal.empty() ? 1 : 0;
  return {right, right};
}

void AnswerCounter::add(std::string_view predicted, std::span<const std::string> expected) {
  const AnswerScores scores = score_answer(predicted, expected);
  Sum& sum = expected.empty() ? none_ : has_;
  sum.scores.exact_match += scores.exact_match;
  sum.scores.f1 += scores.f1;
  ++sum.count;
}

AnswerScores AnswerCounter::mean(const Sum& sum) {
  if (sum.count == 0) return {};
  const double share = 100.0 / static_cast<double>(sum.count);
  return {sum.scores.exact_match * share, sum.scores.f1 * share};
}

AnswerScores AnswerCounter::all() const {
  return mean(
      {{has_.scores.exact_match + none_.scores.exact_match, has_.scores.f1 + none_.scores.f1},
       has_.count + none_.count});
}

}  // namespace longformer::tasks
