// Attention to as many tokens as each head has learned to look back (Adaptive Attention Span, arXiv
// 1905.07799; docs/spec/other-attentions.md#h4).
#pragma once

#include <string_view>
#include <vector>

#include "models/attention/query_key_value.h"
#include "ops/span_masks.h"

namespace longformer::models {

/// The loss of the spans of a layer (PassOptions::losses).
inline constexpr std::string_view kSpanLoss = "span";

/// Whether a weight of this name holds the spans of heads, z: numbers from 0 to 1.
inline bool holds_spans(std::string_view name) { return name.ends_with(".spans"); }

class AdaptiveAttention final : public Attention {
 public:
  AdaptiveAttention(const LanguageModelConfig& config, Index layer, const LayerSource& source);

  Tensor forward(const ops::Context& context, const Tensor& x, const LayerInput& in) const override;
  std::unique_ptr<LayerState> start(DType dtype, Index streams) const override;

  /// z·S of each head.
  std::vector<double> spans() const { return ops::span_lengths(spans_, ramp_); }
  /// Tokens before its own one that the head with the longest span sees.
  Index reach() const;

 private:
  Tensor keys(const ops::Context& context, Index longest) const;

  kernels::SpanRamp ramp_;
  Index heads_, head_size_;
  double dropout_;
  /// λ · S, times the number of layers: the losses of layers are averaged.
  double loss_;
  std::uint64_t place_;
  QueryKeyValue query_key_value_;
  /// z [H], and e [S, d], which all layers share.
  Tensor spans_, distances_;
  /// Heads have a column more, in which scores get ln m: u is zero, and v is one there.
  Tensor content_bias_, position_bias_;
};

}  // namespace longformer::models
