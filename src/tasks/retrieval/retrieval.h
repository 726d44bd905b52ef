// The metrics of rankings that were made elsewhere.
#pragma once

#include <string>
#include <vector>

#include "longformer/options.h"
#include "longformer/report.h"

namespace longformer {

/// Evaluation::task, and how it is asked for.
inline constexpr const char* kRetrieval = "retrieval";

/// score() of a run, a file of TREC, with the queries and judgements of a folder.
Evaluation score_run(const std::string& run, const std::string& folder, const DataOptions& options);

namespace tasks {

/// Those of an evaluation, in the order of its JSON.
std::vector<const Counter*> retrieval_counters();

}  // namespace tasks

}  // namespace longformer
