// Self-attention of DeBERTa: scores of contents, of queries with keys of distances, and of keys
// with queries of distances.
#include <cmath>
#include <utility>

#include "models/attention/attention.h"
#include "ops/dropout.h"

namespace longformer::models {
namespace {

class DisentangledAttention final : public Attention {
 public:
  DisentangledAttention(const EncoderConfig& config, Index layer, const LayerSource& source)
      : pattern_{.head_size = config.head_size(), .heads = config.pattern(layer)},
        recipe_(config.recipe.distance_keys.value()),
        attention_dropout_(config.attention_dropout),
        table_dropout_(config.hidden_dropout),
        place_(layer_place(layer)),
        query_key_value_(query_key_value(config, layer, source)) {
    pattern_.distance_keys = recipe_.has_table && (recipe_.has_keys || recipe_.has_queries);
    if (recipe_.shares_projections || !recipe_.has_table) return;
    const LinearShape shape = {config.hidden_size, config.hidden_size};
    const std::string name = self_attention_name(layer);
    if (recipe_.has_keys) keys_ = linear(source, name + "pos_key_proj", shape);
    if (recipe_.has_queries) queries_ = linear(source, name + "pos_query_proj", shape);
  }

  Tensor forward(const ops::Context& context, const Tensor& x,
                 const LayerInput& in) const override {
    ops::AttentionSpec spec = {pattern_, in.shared.rows_without_globals};
    spec.dropout = context.dropout(attention_dropout_, place_);
    auto projected = ops::project_heads(context, x, query_key_value_, heads(), pattern_.head_size);
    projected[0] = ops::scaled(context, projected[0], scale());
    ops::KeyGroup group = {.spec = spec, .key = projected[1], .value = projected[2]};
    if (pattern_.distance_keys) group.distance_keys = distances(context, in.shared);
    if (in.observer != nullptr) {
      ops::attention_probabilities(
          context, spec,
          {.query = projected[0],
           .key = projected[1],
           .distance_keys = group.distance_keys ? &*group.distance_keys : nullptr},
          in.observer->heads, in.observer->observe);
    }
    return ops::attention_over(context, projected[0], {&group, 1});
  }

 private:
  Index heads() const { return static_cast<Index>(pattern_.heads.size()); }
  /// Scores are divided by √((1 + terms)·d): queries hold what the kernels do not.
  float scale() const {
    const int terms = 1 + int{recipe_.has_keys} + int{recipe_.has_queries};
    return static_cast<float>(1 / std::sqrt(static_cast<double>(terms)));
  }

  ops::DistanceKeys distances(const ops::Context& context, const SharedInput& shared) const {
    ops::DistanceKeys found = {.keys = {}, .queries = {}, .rows = shared.distance_rows};
    // The layer drops in three other places.
    const Tensor table =
        ops::dropout(context, *shared.distance_table, context.dropout(table_dropout_, place_ + 3));
    const auto project = [&](const ops::Linear& dense) {
      return ops::project_heads(context, table, dense, heads(), pattern_.head_size);
    };
    if (recipe_.shares_projections) {
      auto all = project(query_key_value_);
      if (recipe_.has_keys) found.keys = std::move(all[1]);
      if (recipe_.has_queries) found.queries = std::move(all[0]);
    } else {
      if (recipe_.has_keys) found.keys = std::move(project(*keys_)[0]);
      if (recipe_.has_queries) found.queries = std::move(project(*queries_)[0]);
    }
    if (found.queries) found.queries = ops::scaled(context, *found.queries, scale());
    return found;
  }

  kernels::AttentionPattern pattern_;
  DistanceKeyRecipe recipe_;
  double attention_dropout_, table_dropout_;
  std::uint64_t place_;
  ops::Linear query_key_value_;
  /// Projections of the table, where it has its own.
  std::optional<ops::Linear> keys_, queries_;
};

}  // namespace

std::unique_ptr<Attention> disentangled_attention(const EncoderConfig& config, Index layer,
                                                  const LayerSource& source) {
  return std::make_unique<DisentangledAttention>(config, layer, source);
}

}  // namespace longformer::models
