// Exact match and F1 of answers, as the evaluation scripts of SQuAD 1.1 and 2.0 count them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace longformer::tasks {

/// Lower case, without ASCII punctuation and the articles a, an and the, words apart by one space.
std::string normalized_answer(std::string_view text);

struct AnswerScores {
  double exact_match = 0;
  /// F1 of the words that both answers have, as often as they have them.
  double f1 = 0;
};

/// Against the best of the right answers; without any (or when all of them are empty after
/// normalisation) an answer is right when it is empty.
AnswerScores score_answer(std::string_view predicted, std::span<const std::string> expected);

/// Means in percent. Without questions a mean is 0.
class AnswerCounter {
 public:
  void add(std::string_view predicted, std::span<const std::string> expected);

  std::int64_t questions() const { return has_.count + none_.count; }
  std::int64_t unanswerable() const { return none_.count; }
  AnswerScores all() const;
  /// Scores of questions with and without an answer.
  AnswerScores answerable_scores() const { return mean(has_); }
  AnswerScores unanswerable_scores() const { return mean(none_); }

 private:
  struct Sum {
    AnswerScores scores;
    std::int64_t count = 0;
  };
  static AnswerScores mean(const Sum& sum);

  Sum has_, none_;
};

}  // namespace longformer::tasks
