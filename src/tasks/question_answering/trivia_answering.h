// TriviaQA: answers in documents that are known to have one, but not where (docs/spec/tasks.md#t1).
#pragma once

#include <vector>

#include "engine/frame/collation.h"
#include "tasks/engine_names.h"
#include "tasks/question_answering/trivia_data.h"

namespace longformer::tasks {

/// The data of TriviaQA, learned and answered with the head of question_answering().
const Task& trivia_answering();

/// The document as one example of all of its rows. Right are all spans with an answer that a row
/// holds whole or, with AnswerLoss::first, the first one of them in the first row that does. None
/// where there is no such span.
std::vector<Example> collate(Collator& rows, const TriviaExample& example,
                             const DataOptions& options);

/// The options of TriviaOptions that a training or an evaluation has.
OptionFields trivia_fields(TriviaOptions& options, OptionUse use);

}  // namespace longformer::tasks
