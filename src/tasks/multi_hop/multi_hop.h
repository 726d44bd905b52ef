// Questions whose answers take several paragraphs, with the sentences that support them: HotpotQA
// and 2WikiMultiHopQA (Longformer paper, appendix D). `transformers` has no class for it.
#pragma once

#include <vector>

#include "engine/frame/collation.h"
#include "engine/frame/task.h"
#include "tasks/engine_names.h"
#include "tasks/multi_hop/multi_hop_decoding.h"

namespace longformer::tasks {

const Task& multi_hop();

/// All rows of a question with what is to be said of it. An answer counts where the facts, or
/// titles of their paragraphs, have its words; else where other sentences of these paragraphs have
/// them; else where it stands there letter by letter.
std::vector<Example> collate(Collator& rows, const MultiHopReader& reader,
                             const MultiHopExample& example, const MultiHopOptions& options);

/// Runs the head over the rows of a question and decides. `model` gives the states.
MultiHopLogits multi_hop_logits(const ops::Context& context, const Head& head, const Tensor& hidden,
                                const MultiHopReading& reading);

/// The options of MultiHopOptions that a training or an evaluation has.
OptionFields multi_hop_fields(MultiHopOptions& options, OptionUse use);

}  // namespace longformer::tasks
