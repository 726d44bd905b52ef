// Which keys attention looks at most (docs/spec/language-models.md#g2-compression, compression
// "most-used").
#pragma once

#include <span>
#include <vector>

#include "ops/attention.h"

namespace longformer::ops {

/// Rows of a memory and behind them those of a segment, of each stream.
struct UsedRows {
  Index streams = 1;
  /// 0 where there is no memory: then it is no group either.
  Index memory = 0;
  Index segment = 0;
  /// The oldest rows of both, of which so many are kept.
  Index old = 0, kept = 0;
};

/// The `kept` of the `old` rows of each stream that the segment's queries look at most: mean
/// probability over heads and over the queries that may see a row, from one softmax over all
/// groups, of which the last are memory and segment. Numbers among the old rows of all streams, in
/// their order; of equal ones the older. It has no backward pass.
std::vector<Index> most_used_rows(const Context& context, const Tensor& query,
                                  std::span<const KeyGroup> groups, const UsedRows& rows);

}  // namespace longformer::ops
