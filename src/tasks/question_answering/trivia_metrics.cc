#include "tasks/question_answering/trivia_metrics.h"

#include <algorithm>
#include <unordered_map>

#include "tasks/question_answering/answer_matching.h"

namespace longformer::tasks {
namespace {

/// How often a normalised answer has each of its words.
std::unordered_map<std::string_view, int> word_counts(std::string_view normal) {
  std::unordered_map<std::string_view, int> counts;
  while (!normal.empty()) {
    const std::size_t end = std::min(normal.find(' '), normal.size());
    ++counts[normal.substr(0, end)];
    normal.remove_prefix(std::min(end + 1, normal.size()));
  }
  return counts;
}

double f1_of_words(std::string_view predicted, std::string_view right) {
  const auto found = word_counts(predicted), wanted = word_counts(right);
  int common = 0, words = 0;
  for (const auto& [word, count] : found) {
    words += count;
    if (const auto other = wanted.find(word); other != wanted.end()) {
      common += std::min(count, other->second);
    }
  }
  for (const auto& [word, count] : wanted) words += count;
  return common == 0 ? 0 : 2.0 * common / words;
}

}  // namespace

AnswerScores score_trivia_answer(std::string_view predicted, std::span<const std::string> right) {
  AnswerScores best;
  const std::string normal = normalized_trivia_answer(predicted);
  for (const std::string& answer : right) {
    const std::string wanted = normalized_trivia_answer(answer);
    best.exact_match = std::max(best.exact_match, normal == wanted ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, f1_of_words(normal, wanted));
  }
  return best;
}

}  // namespace longformer::tasks
