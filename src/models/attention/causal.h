// Causal windows with dilated heads (paper §4, docs/spec/language-models.md#d), as long as the
// whole past where attention is dense.
#pragma once

#include <optional>

#include "models/attention/query_key_value.h"

namespace longformer::models {

class CausalAttention final : public Attention {
 public:
  CausalAttention(const LanguageModelConfig& config, Index layer, const LayerSource& source);

  Tensor forward(const ops::Context& context, const Tensor& x, const LayerInput& in) const override;
  std::unique_ptr<LayerState> start(DType dtype, Index streams) const override;

  /// No weight changes with the window.
  void set_window(Index window);

 private:
  Tensor relative_keys(const ops::Context& context, const Tensor& distances) const;

  kernels::AttentionPattern pattern_;
  double dropout_;
  std::uint64_t place_;
  QueryKeyValue query_key_value_;
  /// u, v and W_r; absent where positions are not relative.
  struct Relative {
    Tensor content_bias, position_bias;
    ops::Linear key;
  };
  std::optional<Relative> relative_;
};

}  // namespace longformer::models
