// Attention by features (Performer, arXiv 2009.14794; docs/spec/low-rank-and-kernels.md#f) of
// language models, which look back. That of encoders, which look both ways, is
// performer_attention().
#pragma once

#include "models/attention/query_key_value.h"
#include "models/feature_config.h"

namespace longformer::models {

/// Attention of a layer to all that was read. Its state does not grow.
class FeatureAttention final : public Attention {
 public:
  FeatureAttention(const LanguageModelConfig& config, Index layer, const LayerSource& source);

  Tensor forward(const ops::Context& context, const Tensor& x, const LayerInput& in) const override;
  std::unique_ptr<LayerState> start(DType dtype, Index streams) const override;

 private:
  kernels::FeatureAttentionSpec spec_;
  Tensor directions_;
  QueryKeyValue query_key_value_;
};

}  // namespace longformer::models
