// Which mentions of a document mean the same (docs/spec/tasks.md#t4).
#pragma once

#include "tasks/coreference_head.h"
#include "tasks/coreference_reader.h"
#include "tasks/task.h"

namespace longformer::tasks {

const Task& coreference();

}  // namespace longformer::tasks
