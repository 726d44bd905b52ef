// Tables by distance, which all layers of an encoder share: biases, or keys and queries
// (docs/spec/modern-encoders.md#distances).
#pragma once

#include <optional>

#include "models/attention/attention.h"
#include "ops/normalization.h"

namespace longformer::models {

class Distances {
 public:
  Distances() = default;
  Distances(const EncoderConfig& config, const LayerSource& source);

  /// Gives the layers of a pass what they read of distances in its documents.
  void fill(const ops::Context& context, SharedInput& shared) const;

 private:
  DistanceBias bias_ = DistanceBias::none;
  Index heads_ = 0;
  /// Learned biases, [buckets, heads].
  Tensor buckets_;
  std::optional<DistanceKeyRecipe> keys_;
  /// [P, D]
  Tensor table_;
  std::optional<ops::LayerNorm> norm_;
};

}  // namespace longformer::models
