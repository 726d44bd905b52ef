// The autoregressive character Longformer: pre-norm layers with causal windows, dilated heads and
// relative positions (paper §4, spec.md D).
//
// n characters of one or more segments behind each other, D hidden size, H heads, d head size.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/character_lm_config.h"
#include "models/checkpoint.h"
#include "ops/attention.h"
#include "ops/key_ring.h"
#include "ops/loss.h"
#include "ops/residual.h"

namespace longformer::models {

/// What the layers of a forward pass share; it must live until the backward pass.
struct CharacterPass {
  std::shared_ptr<const kernels::AttentionRows> rows;
  /// Row δ for the distance δ, as far as anything sees, [distances, D], after dropout.
  Tensor sinusoids;
};

/// What a layer keeps of the text before, when it is read piece by piece.
struct CharacterLayerPast {
  ops::KeyRing ring;
  /// W_r·R of all distances, made once.
  Tensor relative_keys;
};

/// h + W_o·attention(LayerNorm(h)); h + down(GELU(up(LayerNorm(h)))).
class CharacterLmLayer {
 public:
  CharacterLmLayer(const CharacterLmConfig& config, Index layer, const Checkpoint& weights,
                   DType dtype);

  /// x [n, D] to [n, D].
  Tensor forward(const ops::Context& context, const Tensor& x, const CharacterPass& pass,
                 CharacterLayerPast* past) const;

  /// r [H, m, d] with as many distances as the sinusoids have and the window needs.
  Tensor relative_keys(const ops::Context& context, const Tensor& sinusoids) const;

  CharacterLayerPast start(const ops::Context& context) const;
  void set_window(Index window);

 private:
  Tensor attend(const ops::Context& context, const Tensor& x, const CharacterPass& pass,
                CharacterLayerPast* past) const;
  kernels::AttentionPattern pattern(const ops::Context& context) const;

  Index window_, reach_, heads_, head_size_;
  std::vector<Index> strides_;  ///< Of each head.
  double dropout_, attention_dropout_;
  std::uint64_t place_;
  Tensor content_bias_, position_bias_;
  ops::LayerNorm attention_norm_, feed_forward_norm_;
  ops::Linear query_key_value_, relative_key_, attention_output_;
  ops::FeedForward feed_forward_;
};

/// The text before the next characters, as far as a model sees it: its size does not depend on the
/// length of the text.
class CharacterPast {
 public:
  Index characters() const { return characters_; }

 private:
  friend class CharacterLm;
  std::vector<CharacterLayerPast> layers_;
  Index characters_ = 0;
};

class CharacterLm {
 public:
  /// Throws Error when a weight is missing or of another shape than the configuration says.
  CharacterLm(CharacterLmConfig config, const Checkpoint& weights, DType dtype);

  const CharacterLmConfig& config() const { return config_; }
  /// One window for each layer; positions are relative, so that no weight changes.
  void set_windows(const std::vector<Index>& windows);

  /// Segments of `length` characters each, behind each other (the last one may be shorter), with
  /// the character that follows each. With a tape the gradients follow.
  ops::LossSum loss(const ops::Context& context, std::span<const std::int32_t> ids,
                    std::span<const std::int32_t> labels, Index length,
                    const ops::LossOptions& options) const;

  /// Last hidden states of such segments, [n, D].
  Tensor forward(const ops::Context& context, std::span<const std::int32_t> ids,
                 Index length) const;

  /// Loss of the next characters of a text, whose past moves on.
  ops::LossSum loss(const ops::Context& context, std::span<const std::int32_t> ids,
                    std::span<const std::int32_t> labels, CharacterPast& past) const;

  CharacterPast start(const ops::Context& context) const;
  /// Last hidden states of the next characters of a text, whose past moves on.
  Tensor forward(const ops::Context& context, std::span<const std::int32_t> ids,
                 CharacterPast& past) const;

  /// Of hidden states [n, D]: [n, V] fp32, of the character that follows each.
  Tensor logits(const ops::Context& context, const Tensor& hidden) const;

 private:
  Index most_distance() const;
  Tensor embedded(const ops::Context& context, std::span<const std::int32_t> ids) const;
  Tensor run(const ops::Context& context, std::span<const std::int32_t> ids,
             const std::shared_ptr<const CharacterPass>& pass) const;
  Tensor finished(const ops::Context& context, const Tensor& x) const;

  CharacterLmConfig config_;
  Tensor embedding_;
  std::vector<CharacterLmLayer> layers_;
  std::optional<ops::LayerNorm> final_norm_;
  ops::Linear decoder_;
};

}  // namespace longformer::models
