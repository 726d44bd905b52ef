// The best links of many spans (span_scores.h) without the scores of links that their bounds
// exclude.
#pragma once

#include <vector>

#include "kernels/span_scores.h"

namespace longformer::kernels {

/// How many links there were, and of how many the bounds left open whether they are the best of
/// their span, so that their scores were computed.
struct LinkCounts {
  Index all = 0, computed = 0;
};

/// best_antecedents() with bounds along so many directions. Blocks of spans in which too many links
/// stay open, those of the first spans and those of numbers that are not finite are computed whole.
/// Adds to `counts` unless it is null.
std::vector<Index> bounded_antecedents(const SpanLinks& links, Index directions, int threads,
                                       LinkCounts* counts);
/// best_antecedents() with all scores.
std::vector<Index> unbounded_antecedents(const SpanLinks& links, int threads);

}  // namespace longformer::kernels
