// Wrong answers that look right: texts that share words with a query and are not relevant to it.
#pragma once

#include "core/dtype.h"
#include "tasks/rerank/rerank_data.h"

namespace longformer::tasks {

/// Adds to each query without irrelevant texts so many of the texts of other queries, the best by
/// BM25 of the query's words (the full-text index of `search`, stems of English), and any others
/// where too few share words with it. A text that is relevant to the query is none of them.
void add_hard_negatives(RerankData& data, Index count);

}  // namespace longformer::tasks
