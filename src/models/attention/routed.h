// Attention of a Routing Transformer (arXiv 2003.05997; docs/spec/other-attentions.md#routing):
// some heads see a window, in the others tokens see those of the clusters that draw them.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "models/attention/attention.h"
#include "models/language_model_config.h"
#include "ops/centroids.h"

namespace longformer::models {

/// The loss of tokens that are far from their centroids (PassOptions::losses).
inline constexpr std::string_view kCommitmentLoss = "commitment";

/// Whether a weight of this name holds centroids, which follow the tokens and learn from no loss.
inline bool holds_centroids(std::string_view name) { return name.ends_with(".centroids"); }

/// Query–key pairs of all heads of a layer in a text of n tokens.
double routed_pairs(const LanguageModelConfig& config, Index n);

struct RoutedPast;

/// A text is routed as a whole; with a state it goes on token by token, each of them among all that
/// were read.
class RoutedAttention final : public Attention {
 public:
  RoutedAttention(const LanguageModelConfig& config, Index layer, const LayerSource& source);

  Tensor forward(const ops::Context& context, const Tensor& x, const LayerInput& in) const override;
  std::unique_ptr<LayerState> start(DType dtype, Index streams) const override;

 private:
  struct Routes;
  Tensor values_of(const ops::Context& context, const Tensor& values, bool are_routed) const;
  Tensor attend_near(const ops::Context& context, const Tensor& x, const LayerInput& in) const;
  Tensor attend_routed(const ops::Context& context, const Tensor& x, const LayerInput& in) const;
  Routes routes(const ops::Context& context, const Tensor& key, const LayerInput& in,
                RoutedPast* past) const;
  Tensor learn(const ops::Context& context, const Tensor& key, std::vector<ops::RoutedText> texts,
               const LayerInput& in) const;

  RoutingConfig routing_;
  Index heads_, head_size_;
  double dropout_, commitment_;
  std::uint64_t place_;
  std::optional<ops::Linear> near_;
  /// Queries, which are keys too, and values.
  ops::Linear query_value_;
  ops::LayerNorm key_norm_;
  /// [H, K, d]
  Tensor centroids_;
};

}  // namespace longformer::models
