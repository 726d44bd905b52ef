// Self-attention of BERT, RoBERTa, ModernBERT, EuroBERT and their kin: every token sees every
// token, those before it, or those in its window and the global ones, which see everything.
#include "models/attention/attention.h"
#include "ops/heads.h"

namespace longformer::models {
namespace {

class DenseAttention final : public Attention {
 public:
  DenseAttention(const EncoderConfig& config, Index layer, const LayerSource& source)
      : pattern_{.head_size = config.head_size(),
                 .heads = config.pattern(layer),
                 .causal = config.recipe.is_causal,
                 .distance_bias = config.recipe.distance_bias != DistanceBias::none},
        packs_by_head_(config.recipe.packs_by_head),
        dropout_(config.attention_dropout),
        place_(layer_place(layer)),
        projections_(projections(config, layer, source)),
        has_window_(pattern_.heads[0].reach_left != kernels::kUnlimitedReach) {
    if (has_window_ && !pattern_.causal)
      pattern_.global_queries = kernels::GlobalQueries::see_everything;
    const auto& kinds = config.recipe.rotation_of_layer;
    if (!kinds.empty()) rotation_ = kinds[at(layer)];
    if (config.recipe.norms_heads) {
      const std::string name = self_attention_name(layer);
      const Index width = config.head_size();
      norms_ = {layer_norm(source, name + "query.LayerNorm", width),
                layer_norm(source, name + "key.LayerNorm", width)};
    }
    const Index heads = config.heads, group = heads / config.key_heads();
    for (Index head = 0; head < heads && group > 1; ++head) key_of_head_.push_back(head / group);
  }

  Tensor forward(const ops::Context& context, const Tensor& x,
                 const LayerInput& in) const override {
    ops::AttentionSpec spec = {pattern_,
                               has_window_ ? in.shared.rows : in.shared.rows_without_globals};
    spec.dropout = context.dropout(dropout_, place_);
    std::vector<Tensor> projected = project(context, x);
    for (std::size_t part = 0; part < norms_.size(); ++part) {
      projected[part] = ops::norm_heads(context, projected[part], norms_[part]);
    }
    if (rotation_) {
      const auto& rotation = in.shared.rotations[*rotation_];
      projected[0] = ops::rotate(context, projected[0], rotation);
      projected[1] = ops::rotate(context, projected[1], rotation);
    }
    if (!key_of_head_.empty()) {
      projected[1] = ops::take_heads(context, projected[1], key_of_head_);
      projected[2] = ops::take_heads(context, projected[2], key_of_head_);
    }
    const std::optional<Tensor>& bias = in.shared.distance_bias;
    if (in.observer != nullptr) {
      ops::attention_probabilities(
          context, spec,
          {.query = projected[0], .key = projected[1], .distance_bias = bias ? &*bias : nullptr},
          in.observer->heads, in.observer->observe);
    }
    const ops::KeyGroup keys = {
        .spec = spec, .key = projected[1], .value = projected[2], .distance_bias = bias};
    return ops::attention_over(context, projected[0], {&keys, 1});
  }

 private:
  /// Queries, keys and values, each [its heads, n, d].
  std::vector<Tensor> project(const ops::Context& context, const Tensor& x) const {
    const Index d = pattern_.head_size;
    const auto heads = static_cast<Index>(pattern_.heads.size());
    std::vector<Tensor> projected;
    if (packs_by_head_) {
      const Tensor all = ops::project_heads(context, x, projections_[0], 3 * heads, d)[0];
      for (Index part = 0; part < 3; ++part) {
        std::vector<Index> chosen;
        for (Index head = 0; head < heads; ++head) chosen.push_back(3 * head + part);
        projected.push_back(ops::take_heads(context, all, chosen));
      }
      return projected;
    }
    // Queries alone, and grouped keys and values, or all three.
    const auto count = static_cast<Index>(projections_.size());
    for (const ops::Linear& projection : projections_) {
      const Index all = projection.out_features() / d;
      const Index parts = count == 1 ? 3 : projected.empty() ? 1 : 2;
      for (Tensor& part : ops::project_heads(context, x, projection, all / parts, d)) {
        projected.push_back(std::move(part));
      }
    }
    return projected;
  }

  kernels::AttentionPattern pattern_;
  bool packs_by_head_;
  double dropout_;
  std::uint64_t place_;
  std::vector<ops::Linear> projections_;
  /// Norms of queries and keys in each head.
  std::vector<ops::LayerNorm> norms_;
  bool has_window_;
  /// Kind of its rotary positions.
  std::optional<std::size_t> rotation_;
  /// The head of keys and values that each head reads; empty where each has its own.
  std::vector<Index> key_of_head_;
};

}  // namespace

std::unique_ptr<Attention> dense_attention(const EncoderConfig& config, Index layer,
                                           const LayerSource& source) {
  return std::make_unique<DenseAttention>(config, layer, source);
}

}  // namespace longformer::models
