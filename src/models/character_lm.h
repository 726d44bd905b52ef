// The autoregressive character Longformer: pre-norm layers with causal windows, dilated heads and
// relative positions (paper §4, spec.md D).
//
// n characters of one or more documents behind each other, D hidden size, V characters.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/attention/relative.h"
#include "models/character_lm_config.h"
#include "models/network.h"
#include "ops/loss.h"

namespace longformer::models {

/// Exact number of weights.
Index parameter_count(const CharacterLmConfig& config);

/// Documents of `length` ids each, behind each other; the last one may be shorter.
Batch segments_of(std::span<const std::int32_t> ids, Index length);

class CharacterLm final : public Network {
 public:
  /// Throws Error when a weight is missing or of another shape than the configuration says.
  CharacterLm(CharacterLmConfig config, const Weights& weights, DType dtype);

  const CharacterLmConfig& config() const { return config_; }
  /// One window for each layer; positions are relative, so that no weight changes.
  void set_windows(const std::vector<Index>& windows);

  Tensor forward(const ops::Context& context, const Batch& batch,
                 const PassOptions& options = {}) const override;
  State start(DType dtype, Index streams = 1) const override;

  /// The loss of the character that follows each of the batch. With a tape the gradients follow.
  ops::LossSum loss(const ops::Context& context, const Batch& batch,
                    std::span<const std::int32_t> labels, const ops::LossOptions& options = {},
                    const PassOptions& pass = {}) const;

  /// From hidden states [n, D] to [n, V] fp32 of the character that follows each.
  Tensor logits(const ops::Context& context, const Tensor& hidden) const;

 private:
  Index most_distance() const;
  /// Sinusoids of so many distances.
  Tensor distances(const ops::Context& context, Index count) const;

  CharacterLmConfig config_;
  Tensor embedding_;
  std::vector<std::shared_ptr<RelativeAttention>> attention_;
  Stack layers_;
  std::optional<ops::LayerNorm> final_norm_;
  std::optional<ops::Linear> decoder_;
};

}  // namespace longformer::models
