// Answers to questions about documents that are spans of them.
#pragma once

#include <vector>

#include "tasks/answers.h"
#include "tasks/collation.h"
#include "tasks/data/question_data.h"
#include "tasks/document.h"

namespace longformer::tasks {

const Task& question_answering();

/// An answer counts in every row that holds it whole. A row without an answer has the first token
/// as its answer where the data have questions without one (SQuAD 2), else none.
std::vector<Example> collate(Collator& rows, const QuestionExample& example, bool has_unanswerable);

/// Throws Error for rules that leave no answer, or that segments cannot keep.
void check_answer_rules(const AnswerRules& rules, const ReadingOptions& reading);

/// The best answers of a document that went through the model.
Answers answers_of(const Document& document, const AnswerRules& rules);

/// Where the tokens of the document stand in its text, as characters.
CharacterSpan characters_of(const Reading& reading, TokenRange tokens);

}  // namespace longformer::tasks
