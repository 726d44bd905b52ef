// Bounds of the scores of links (span_scores.h) at a tenth of what the scores cost. Queries and
// keys are split by the few directions in which their products vary most: the products along these
// are computed, the rest is at most the product of two lengths (Cauchy–Schwarz). Rounding only
// costs margin: whatever the directions are, the bounds hold.
//
// k spans, r directions, D columns of a query (those of its start and of its end).
#pragma once

#include <vector>

#include "kernels/span_scores.h"

namespace longformer::kernels {

/// Bounds of the scores of k spans. The score of u with v lies between upper − 2·rest[u]·rest[v] −
/// margin[u] and upper + margin[u], upper = mentions[u] + queries[u]·keys[v]: as link_products()
/// rounds it, too.
struct LinkBounds {
  /// Columns of queries and keys: the directions, the length of the rest, and a mention's score.
  Index width = 0;
  /// [k, width]; the last two columns are (rest[u], 1) and (rest[v], mentions[v]).
  std::vector<float> queries, keys;
  /// [k]; not finite where the bounds say nothing.
  std::vector<double> margins;
  /// [k]: how far two sums of the same D products may lie apart, in whatever order they are added.
  std::vector<double> roundings;

  float query_rest(Index u) const { return queries[at((u + 1) * width - 2)]; }
  float key_rest(Index v) const { return keys[at((v + 1) * width - 2)]; }
};

/// There must be spans, and `directions` at least 1.
LinkBounds link_bounds(const SpanLinks& links, Index directions, int threads);

}  // namespace longformer::kernels
