// Questions whose answers take several paragraphs, with the sentences that support them: HotpotQA
// and 2WikiMultiHopQA (Longformer paper, appendix D). `transformers` has no class for it.
#pragma once

#include "tasks/multi_hop_decoding.h"
#include "tasks/task.h"

namespace longformer::tasks {

const Task& multi_hop();

/// Runs the head over the rows of a question and decides. `model` gives the states.
MultiHopLogits multi_hop_logits(const ops::Context& context, const Head& head, const Tensor& hidden,
                                const MultiHopReading& reading);

}  // namespace longformer::tasks
