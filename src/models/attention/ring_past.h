// The state of a layer that keeps the last keys and values of each stream
// (docs/spec/language-models.md#d4).
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/attention/spec.h"
#include "models/state.h"
#include "ops/key_ring.h"

namespace longformer::models {

/// The keys and values that later tokens still see.
class RingPast final : public LayerState {
 public:
  explicit RingPast(ops::KeyRing ring) : ring(std::move(ring)) {}

  std::unique_ptr<LayerState> copy() const override {
    auto same = std::make_unique<RingPast>(*this);
    same->ring = ring.copied();
    return same;
  }
  std::int64_t bytes() const override {
    return ring.bytes() + static_cast<std::int64_t>(relative_keys.bytes());
  }
  void reorder(std::span<const Index> sources) override { ring.reorder(sources); }
  std::vector<Tensor> saved() const override { return ring.saved(); }
  void restore(std::span<const Tensor> saved) override { ring.restore(saved); }

  ops::KeyRing ring;
  /// Keys of all distances, or of all kinds of edges, made once.
  Tensor relative_keys = {};
};

/// Rows of queries that follow each other, and for each stream the part of the ring that it sees.
kernels::AttentionRows rows_over(const ops::KeyRing& ring, std::span<const Index> starts);

}  // namespace longformer::models
