// Scores of the links of a block of spans, which their loss and the search for the best one share.
#pragma once

#include "kernels/rows.h"
#include "kernels/span_scores.h"

namespace longformer::kernels {

/// scale·(start_query·start_key + end_query·end_key) [rows, keys] of these spans, summed in fp32.
void link_products(const SpanLinks& links, RowRange rows, RowRange keys, float* products);

/// Whether a link is better than those before it, the best of which scores `highest`, or 0.
inline bool better_link(float score, float highest) { return score > 0 && score >= highest; }

}  // namespace longformer::kernels
