// Answers to questions about documents that are spans of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/frame/collation.h"
#include "engine/frame/counters.h"
#include "engine/reading/document.h"
#include "tasks/engine_names.h"
#include "tasks/question_answering/answers.h"
#include "tasks/question_answering/question_data.h"

namespace longformer::tasks {

/// Training a document that is cut, and evaluating one, may leave out what answers its question.
inline constexpr Counter kUnreachedAnswers = {
    .name = "unreached_answers",
    .meaning =
        "TriviaQA and questions over paragraphs: documents or questions without an answer in "
        "what is read",
    .evaluation = {.one = "{n} of {examples|question} has no answer in what is read",
                   .many = "{n} of {examples|question} have no answer in what is read"},
    .training = {.one = "{n} question has no answer in what is read",
                 .many = "{n} questions have no answer in what is read"},
    .is_of_model = true};

/// The task of data sets whose answers are in the document, at known places. Of TriviaQA, which has
/// the same head, read() makes the data set of trivia_answering().
const Task& question_answering();

/// An answer counts in every row that holds it whole. A row without an answer has the first token
/// as its answer where the data have questions without one (SQuAD 2), else none.
std::vector<Example> collate(Collator& rows, const QuestionExample& example, bool has_unanswerable);

/// Throws Error for rules that leave no answer, or that segments cannot keep.
void check_answer_rules(const AnswerRules& rules, const ReadingOptions& reading);

/// The best answers of a document that went through the model.
Answers answers_of(const Document& document, const AnswerRules& rules);

/// The best answer of a document that went through the model: of every row the span with the
/// largest logit, of the rows the best one, of equals the earlier and then the shorter one, widened
/// to whole words. Nothing for a document without tokens.
std::optional<AnswerSpan> best_answer(const Document& document, Index max_tokens);

/// Text of tokens of the document.
std::string text_of(const Reading& reading, TokenRange tokens);

/// Each position once, ascending.
void sort_and_unite(std::vector<Index>& positions);

/// Place of the document's tokens in its text, in whole graphemes. `starts` are character_starts of
/// the text.
CharacterSpan characters_of(const Reading& reading, std::span<const std::size_t> starts,
                            TokenRange tokens);

}  // namespace longformer::tasks
