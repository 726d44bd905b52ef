#include "engine/reading/segments.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "core/error.h"

namespace longformer::engine {

std::vector<TokenRange> plan_segments(Index tokens, Index capacity, Index overlap) {
  require(overlap >= 0 && overlap < capacity,
          "segments: expected an overlap from 0 to {} tokens, found {}", capacity - 1, overlap);
  if (tokens <= capacity) return {{0, tokens}};
  const Index step = capacity - overlap;
  const Index count = (tokens - overlap + step - 1) / step;
  std::vector<TokenRange> segments;
  for (Index i = 0; i < count; ++i) {
    const Index begin = (tokens - capacity) * i / (count - 1);
    segments.push_back({begin, begin + capacity});
  }
  return segments;
}

std::size_t best_segment(const std::vector<TokenRange>& segments, TokenRange range, Index tokens) {
  constexpr Index kUnlimited = std::numeric_limits<Index>::max();
  std::size_t best = segments.size();
  Index most = -1;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const TokenRange& segment = segments[i];
    if (segment.begin > range.begin || segment.end < range.end) continue;
    const Index left = segment.begin == 0 ? kUnlimited : range.begin - segment.begin;
    const Index right = segment.end == tokens ? kUnlimited : segment.end - range.end;
    if (std::min(left, right) > most) {
      most = std::min(left, right);
      best = i;
    }
  }
  assert(best < segments.size());
  return best;
}

std::vector<TokenRange> owned_tokens(const std::vector<TokenRange>& segments, Index tokens) {
  std::vector<TokenRange> owned;
  Index begin = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const bool last = i + 1 == segments.size();
    const Index end = last ? tokens : (segments[i + 1].begin + segments[i].end) / 2;
    owned.push_back({begin, end});
    begin = end;
  }
  return owned;
}

}  // namespace longformer::engine
