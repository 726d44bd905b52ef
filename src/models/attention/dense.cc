// Self-attention of BERT, RoBERTa, ModernBERT and their kin: every token sees every token, or those
// in its window and the global ones, which see everything.
#include "models/attention/attention.h"

namespace longformer::models {
namespace {

class DenseAttention final : public Attention {
 public:
  DenseAttention(const EncoderConfig& config, Index layer, const LayerSource& source)
      : pattern_{.head_size = config.head_size(), .heads = config.pattern(layer)},
        dropout_(config.attention_dropout),
        place_(layer_place(layer)),
        query_key_value_(query_key_value(config, layer, source)),
        has_window_(pattern_.heads[0].reach_left != kernels::kUnlimitedReach) {
    if (has_window_) pattern_.global_queries = kernels::GlobalQueries::see_everything;
    const auto& kinds = config.recipe.rotation_of_layer;
    if (!kinds.empty()) rotation_ = kinds[at(layer)];
  }

  Tensor forward(const ops::Context& context, const Tensor& x,
                 const LayerInput& in) const override {
    ops::AttentionSpec spec = {pattern_,
                               has_window_ ? in.shared.rows : in.shared.rows_without_globals};
    spec.dropout = context.dropout(dropout_, place_);
    const auto heads = static_cast<Index>(pattern_.heads.size());
    auto projected = ops::project_heads(context, x, query_key_value_, heads, pattern_.head_size);
    if (rotation_) {
      const auto& rotation = in.shared.rotations[*rotation_];
      projected[0] = ops::rotate(context, projected[0], rotation);
      projected[1] = ops::rotate(context, projected[1], rotation);
    }
    if (in.observer != nullptr) {
      ops::attention_probabilities(context, spec, {.query = projected[0], .key = projected[1]},
                                   in.observer->heads, in.observer->observe);
    }
    return ops::attention(context, spec, projected[0], projected[1], projected[2]);
  }

 private:
  kernels::AttentionPattern pattern_;
  double dropout_;
  std::uint64_t place_;
  ops::Linear query_key_value_;
  bool has_window_;
  /// Kind of its rotary positions.
  std::optional<std::size_t> rotation_;
};

}  // namespace

std::unique_ptr<Attention> dense_attention(const EncoderConfig& config, Index layer,
                                           const LayerSource& source) {
  return std::make_unique<DenseAttention>(config, layer, source);
}

}  // namespace longformer::models
