// Exact match and F1 of answers, as the evaluation script of TriviaQA counts them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tasks/question_answering/answer_metrics.h"

namespace longformer::tasks {

/// Against the best of the right answers, all under normalized_trivia_answer. Where two answers
/// have no word in common F1 is 0, also when both are empty. Without right answers both are 0.
AnswerScores score_trivia_answer(std::string_view predicted, std::span<const std::string> right);

}  // namespace longformer::tasks
