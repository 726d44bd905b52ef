// longformer qa with a model for multi-hop question answering: all documents are read together, as
// paragraphs, and the answer comes with the sentences that support it.
#pragma once

#include <string>
#include <vector>

#include "flags.h"
#include "inputs.h"
#include "longformer/tasks.h"

namespace longformer::cli {

struct MultiHopQuestions {
  const ModelFlags& model;
  InputOptions inputs;
  /// Without any, the inputs hold questions with their paragraphs in the forms of HotpotQA.
  const std::vector<std::string>& questions;
  MultiHopAnswerOptions options;
};

/// Throws Error for inputs and questions that cannot be read.
void answer_multi_hop(const MultiHopQuestions& asked, Messages& messages);

}  // namespace longformer::cli
