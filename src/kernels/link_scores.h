// Scores of the links of a block of spans, which their loss and the search for the best one share.
#pragma once

#include "kernels/rows.h"
#include "kernels/span_scores.h"

namespace longformer::kernels {

/// Products [rows, keys] of the spans of these rows with the first so many.
void link_products(const SpanLinks& links, RowRange rows, Index keys, float* products);

/// Adds the scores of the mentions themselves to the products of span u with the spans before it.
void add_mentions(const SpanLinks& links, Index u, float* scores);

/// Whether a link is better than those before it, the best of which scores `highest`, or 0.
inline bool better_link(float score, float highest) { return score > 0 && score >= highest; }

}  // namespace longformer::kernels
