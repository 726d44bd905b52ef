// GAP as a data set of the coreference task: it measures, and trains nothing.
#pragma once

#include <memory>
#include <string>

#include "engine/frame/task.h"

namespace longformer::tasks {

std::unique_ptr<DataSet> read_gap_set(const std::string& path, const DataOptions& options);

}  // namespace longformer::tasks
