// Causal windows with dilated heads and positions that count from the query (paper §4, spec.md D).
#pragma once

#include "models/attention/attention.h"
#include "models/language_model_config.h"

namespace longformer::models {

class RelativeAttention final : public Attention {
 public:
  RelativeAttention(const LanguageModelConfig& config, Index layer, const LayerSource& source);

  Tensor forward(const ops::Context& context, const Tensor& x, const LayerInput& in) const override;
  std::unique_ptr<LayerState> start(DType dtype, Index streams) const override;

  /// Positions are relative, so that no weight changes with the window.
  void set_window(Index window);

 private:
  Tensor relative_keys(const ops::Context& context, const Tensor& distances) const;

  kernels::AttentionPattern pattern_;
  double dropout_;
  std::uint64_t place_;
  Tensor content_bias_, position_bias_;
  ops::Linear query_key_value_, relative_key_;
};

}  // namespace longformer::models
