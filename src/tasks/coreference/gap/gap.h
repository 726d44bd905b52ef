// GAP as a data set of the coreference task: it measures, and trains nothing.
#pragma once

#include "engine/frame/task.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

PublishedData gap_published();

}  // namespace longformer::tasks
