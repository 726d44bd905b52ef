// Questions whose candidates are read together and scored where they stand: the head of the paper
// for WikiHop (docs/spec/tasks.md#c4-candidates). `transformers` has no class for it.
#pragma once

#include "engine/frame/task.h"
#include "tasks/choice/candidate_reader.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

const Task& candidate_scoring();

}  // namespace longformer::tasks
