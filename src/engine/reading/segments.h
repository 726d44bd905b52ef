// Documents longer than a model: overlapping segments, and which segment speaks for which tokens.
#pragma once

#include <cstddef>
#include <vector>

#include "core/dtype.h"

namespace longformer::engine {

/// Half-open range of tokens.
struct TokenRange {
  Index begin = 0;
  Index end = 0;
  Index size() const { return end - begin; }
};

/// Segments of at most `capacity` tokens that cover all tokens; neighbours share at least
/// `overlap`. Throws Error unless 0 ≤ overlap < capacity.
std::vector<TokenRange> plan_segments(Index tokens, Index capacity, Index overlap);

/// The segment that contains the whole range with most context on its poorer side; the ends of the
/// document count as unlimited context. Some segment must contain the range.
std::size_t best_segment(const std::vector<TokenRange>& segments, TokenRange range, Index tokens);

/// The tokens for which each segment is the best one: a partition of all tokens.
std::vector<TokenRange> owned_tokens(const std::vector<TokenRange>& segments, Index tokens);

}  // namespace longformer::engine
