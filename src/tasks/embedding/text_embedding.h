// Training vectors of texts (sentence-transformers): pairs, triplets, scored pairs, teacher's
// vectors; texts by themselves, or passages whose vectors come from the states of their document.
#pragma once

#include "engine/frame/task.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// The row of the table. It has no tensors: any encoder makes vectors.
const Task& text_embedding();

/// The options of EmbeddingTrainingOptions that a training or an evaluation has.
OptionFields embedding_fields(EmbeddingTrainingOptions& options, OptionUse use);

}  // namespace longformer::tasks
