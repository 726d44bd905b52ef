// Language models that read from left to right: the character Longformer with causal windows and
// dilated heads (paper §4, docs/spec/language-models.md#d), Transformer-XL and the Compressive
// Transformer with memories of what they have read (docs/spec/language-models.md#g), the Performer
// with sums of features (docs/spec/low-rank-and-kernels.md#f), the Reformer with chunks of tokens
// with one hash (docs/spec/other-attentions.md#h3), the Sparse Transformer with near and far keys
// (docs/spec/other-attentions.md#h2), spans that heads learn
// (docs/spec/other-attentions.md#h4), and the Routing Transformer with clusters of tokens
// (docs/spec/other-attentions.md#routing).
//
// n characters of one or more documents behind each other, D hidden size, V characters. Last hidden
// states of a Reformer have 2D numbers.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/attention/adaptive.h"
#include "models/attention/causal.h"
#include "models/attention/memory.h"
#include "models/language_model_config.h"
#include "models/network.h"
#include "models/reversible_stack.h"
#include "ops/loss.h"

namespace longformer::models {

/// Exact number of weights.
Index parameter_count(const LanguageModelConfig& config);

/// Documents of `length` ids each, behind each other; the last one may be shorter.
Batch segments_of(std::span<const std::int32_t> ids, Index length);

class LanguageModel final : public Network {
 public:
  /// Throws Error when a weight is missing or of another shape than the configuration says.
  LanguageModel(LanguageModelConfig config, const Weights& weights, DType dtype);

  const LanguageModelConfig& config() const { return config_; }
  /// One window for each layer; no weight changes with it.
  void set_windows(const std::vector<Index>& windows);

  /// A model with memories reads all documents of a batch on from where the state has ended, or
  /// from the beginning; they have as many tokens each. A training pass is a segment, or up to
  /// unroll_segments of them.
  Tensor forward(const ops::Context& context, const Batch& batch,
                 const PassOptions& options = {}) const override;
  State start(DType dtype, Index streams = 1) const override;
  /// Starts with memories of other lengths than in the configuration. Throws Error where the model
  /// has none, or not of these lengths.
  State start(DType dtype, Index streams, const MemoryLengths& lengths) const;

  /// How many characters each head of each layer looks back before its ramp; empty where spans are
  /// not learned.
  std::vector<std::vector<double>> spans() const;

  /// The loss of the character that follows each of the batch. With a tape the gradients follow:
  /// those of the mean of the layers' own losses too, which counts as often as there are labels.
  ops::LossSum loss(const ops::Context& context, const Batch& batch,
                    std::span<const std::int32_t> labels, const ops::LossOptions& options = {},
                    const PassOptions& pass = {}) const;

  /// From hidden states [n, D] to [n, V] fp32 of the character that follows each.
  Tensor logits(const ops::Context& context, const Tensor& hidden) const;

 private:
  Tensor forward_piece(const ops::Context& context, const Batch& batch,
                       const PassOptions& options) const;
  Tensor forward_segments(const ops::Context& context, const Batch& batch,
                          const PassOptions& options) const;
  Tensor forward_reversible(const ops::Context& context, const Batch& batch,
                            const PassOptions& options) const;
  Tensor forward_whole(const ops::Context& context, const Batch& batch,
                       const PassOptions& options) const;
  std::shared_ptr<const Attention> attention_of(Index layer, const LayerSource& source);
  /// Farthest that a character of the next rows may see.
  Index most_distance(const State* state, Index next) const;
  /// Sinusoids of distances, or of positions from `begin` on.
  Tensor sinusoids(const ops::Context& context, Index count, Index begin = 0) const;
  void share_distances(const ops::Context& context, const Batch& batch, const State* state,
                       SharedInput& shared) const;
  Tensor embed(const ops::Context& context, const Batch& batch, const State* state) const;
  Tensor add_positions(const ops::Context& context, const Tensor& tokens, const Batch& batch,
                       const State* state) const;

  LanguageModelConfig config_;
  Tensor embedding_;
  /// Empty unless positions are learned, axial, or those of a grid.
  Tensor positions_, axial_rows_, axial_columns_, grid_rows_, grid_columns_;
  /// Those of the layers with windows.
  std::vector<std::shared_ptr<CausalAttention>> windowed_;
  std::vector<std::shared_ptr<const AdaptiveAttention>> spanned_;
  Stack layers_;
  /// The layers of a Reformer.
  std::optional<ReversibleStack> reversible_;
  std::optional<ops::LayerNorm> final_norm_;
  std::optional<ops::Linear> decoder_;
};

}  // namespace longformer::models
