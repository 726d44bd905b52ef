// Questions with several answers to choose from, each of which is read apart.
#pragma once

#include <vector>

#include "engine/frame/collation.h"
#include "engine/reading/document.h"
#include "tasks/choice/choice_data.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

const Task& multiple_choice();

/// The rows of all choices are one example.
std::vector<Example> collate(Collator& rows, const ChoiceExample& example);

/// One for each choice: that of its own row, or the sum of its places in all of them.
std::vector<float> choice_logits(const Document& document);

/// Throws Error for a question without choices or without anything to choose by.
void check_question(const ChoiceQuestion& question);

/// Evaluates choices, however they are read.
void evaluate_choices(EvaluationRun& run, const ChoiceData& data,
                      const std::function<Reading(const ChoiceQuestion&)>& read);

}  // namespace longformer::tasks
