#include <array>

#include "tasks/candidate_scoring.h"
#include "tasks/classification.h"
#include "tasks/coreference.h"
#include "tasks/masked_lm.h"
#include "tasks/multi_hop.h"
#include "tasks/multiple_choice.h"
#include "tasks/question_answering.h"
#include "tasks/sequence_to_sequence.h"
#include "tasks/table.h"
#include "tasks/tagging.h"
#include "tasks/text_embedding.h"
#include "tasks/trivia_answering.h"

namespace longformer::tasks {

std::span<const Task* const> all_tasks() {
  // The span layer of multi-hop heads is that of question answering too.
  static const std::array<const Task*, 11> tasks = {
      &classification(),       &tagging(),          &multi_hop(),
      &question_answering(),   &trivia_answering(), &multiple_choice(),
      &candidate_scoring(),    &coreference(),      &masked_lm(),
      &sequence_to_sequence(), &text_embedding(),
  };
  return tasks;
}

}  // namespace longformer::tasks
