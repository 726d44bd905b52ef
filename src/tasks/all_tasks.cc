#include <array>

#include "engine/frame/table.h"
#include "tasks/choice/candidate_scoring.h"
#include "tasks/choice/multiple_choice.h"
#include "tasks/classification/classification.h"
#include "tasks/coreference/coreference.h"
#include "tasks/embedding/text_embedding.h"
#include "tasks/engine_names.h"
#include "tasks/masked_lm/masked_lm.h"
#include "tasks/multi_hop/multi_hop.h"
#include "tasks/question_answering/question_answering.h"
#include "tasks/question_answering/trivia_answering.h"
#include "tasks/rerank/reranking.h"
#include "tasks/tagging/tagging.h"
#include "tasks/writing/sequence_to_sequence.h"

namespace longformer::engine {

std::span<const Task* const> all_tasks() {
  // The span layer of multi-hop heads is that of question answering too; the head of a reranker is
  // that of classification, which comes first.
  static const std::array<const Task*, 12> all = {
      &tasks::classification(),       &tasks::tagging(),          &tasks::multi_hop(),
      &tasks::question_answering(),   &tasks::trivia_answering(), &tasks::multiple_choice(),
      &tasks::candidate_scoring(),    &tasks::coreference(),      &tasks::masked_lm(),
      &tasks::sequence_to_sequence(), &tasks::text_embedding(),   &tasks::reranking(),
  };
  return all;
}

}  // namespace longformer::engine
