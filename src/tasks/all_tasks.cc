#include <array>

#include "engine/frame/table.h"
#include "tasks/choice/candidate_scoring.h"
#include "tasks/choice/multiple_choice.h"
#include "tasks/classification/classification.h"
#include "tasks/coreference/coreference.h"
#include "tasks/embedding/text_embedding.h"
#include "tasks/masked_lm/masked_lm.h"
#include "tasks/multi_hop/multi_hop.h"
#include "tasks/question_answering/question_answering.h"
#include "tasks/question_answering/trivia_answering.h"
#include "tasks/tagging/tagging.h"
#include "tasks/writing/sequence_to_sequence.h"

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
