#include "models/attention/ring_past.h"

namespace longformer::models {

kernels::AttentionRows rows_over(const ops::KeyRing& ring, std::span<const Index> starts) {
  kernels::AttentionRows rows;
  for (Index s = 0; s < ring.streams(); ++s) {
    const Index count = starts[at(s + 1)] - starts[at(s)];
    rows.documents.push_back({.query_begin = starts[at(s)],
                              .query_count = count,
                              .key_begin = ring.begin(s),
                              .key_count = ring.count(s),
                              .query_offset = ring.count(s) - count});
  }
  // The empty document takes the rows of the ring that hold nothing.
  rows.documents.push_back({.query_begin = starts.back(), .key_begin = ring.keys().dimension(1)});
  return rows;
}

}  // namespace longformer::models
