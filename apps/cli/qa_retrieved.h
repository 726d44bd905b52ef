// longformer qa with --retrieve: a search finds passages in many documents, and the model reads
// these alone.
#pragma once

#include <string>
#include <vector>

#include "flags.h"
#include "inputs.h"
#include "longformer/tasks.h"
#include "retrieval.h"

namespace longformer::cli {

struct RetrievedQuestions {
  const ModelFlags& model;
  const InputOptions& inputs;
  /// Without any, each line of stdin is one.
  const std::vector<std::string>& questions;
  AnswerOptions options;
  const RetrievalFlags& retrieval;
};

/// Throws Error for inputs that cannot be read.
void answer_retrieved(const RetrievedQuestions& asked, Messages& messages);

}  // namespace longformer::cli
