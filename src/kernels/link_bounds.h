// Bounds of the scores of links (span_scores.h) at a twentieth of what the scores cost. Queries and
// keys are split by the few directions in which their products vary most: the products along these
// are computed in bf16; the rest, and what rounding to bf16 takes away, are at most products of
// lengths (Cauchy–Schwarz). Rounding only costs margin: whatever the directions are, the bounds
// hold.
//
// k spans, r directions, D columns of a query (those of its start and of its end).
#pragma once

#include <vector>

#include "core/tensor.h"
#include "kernels/span_scores.h"

namespace longformer::kernels {

/// Bounds of the scores of k spans. The score of u with v lies between upper − 2·slack(u, v) −
/// margin[u] and upper + margin[u], upper = mentions[u] + queries[u]·keys[v]: as link_products()
/// rounds it, too.
struct LinkBounds {
  /// Columns behind the directions: a query has the length of its rest, those of the part along the
  /// directions that bf16 loses and of the part, and three ones; a key the length of its rest,
  /// those of its part in bf16 and of what that loses, and a mention's score as three numbers.
  static constexpr Index kSlackColumns = 3, kMentionColumns = 3;

  Index directions = 0;
  /// [k, width()] bf16; no length is rounded down.
  Tensor queries = {}, keys = {};
  /// [k]; not finite where the bounds say nothing.
  std::vector<double> margins = {};
  /// [k]: how far two sums of the same D products may lie apart, in whatever order they are added.
  std::vector<double> roundings = {};

  Index width() const { return directions + kSlackColumns + kMentionColumns; }
  /// The products of lengths are at most so much too high.
  double slack(Index u, Index v) const;
};

/// There must be spans, and `directions` at least 1.
LinkBounds link_bounds(const SpanLinks& links, Index directions, int threads);

}  // namespace longformer::kernels
