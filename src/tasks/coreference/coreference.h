// Which mentions of a document mean the same (docs/spec/tasks.md#t4).
#pragma once

#include "engine/frame/task.h"
#include "tasks/coreference/coreference_head.h"
#include "tasks/coreference/coreference_reader.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

const Task& coreference();

/// The options of CoreferenceOptions that a training or an evaluation has.
OptionFields coreference_fields(CoreferenceOptions& options, OptionUse use);

}  // namespace longformer::tasks
