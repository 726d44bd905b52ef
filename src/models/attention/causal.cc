#include "models/attention/causal.h"

#include <algorithm>
#include <utility>

#include "models/attention/ring_past.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/positions.h"

namespace longformer::models {
CausalAttention::CausalAttention(const LanguageModelConfig& config, Index layer,
                                 const LayerSource& source)
    : pattern_{.head_size = config.head_size,
               .heads = config.pattern(layer),
               .causal = true,
               .relative_positions = config.positions == Positions::relative},
      dropout_(config.attention_dropout),
      place_(layer_place(layer)),
      query_key_value_(config, layer, source) {
  if (!pattern_.relative_positions) return;
  const auto bias = [&](const std::string& name) {
    return source.weights.get_fp32(config.shares_relative_biases ? name : name_in(layer, name),
                                   {config.heads, config.head_size},
                                   Init::normal(source.initial.deviation));
  };
  relative_.emplace(
      Relative{bias("relative_content"), bias("relative_position"),
               linear(source, name_in(layer, "relative_key"),
                      {config.heads * config.head_size, config.hidden_size}, {.has_bias = false})});
}

void CausalAttention::set_window(Index window) {
  for (HeadPattern& head : pattern_.heads) head.reach_left = window;
}

/// r [H, m, d] with as many distances as there are and the window needs.
Tensor CausalAttention::relative_keys(const ops::Context& context, const Tensor& distances) const {
  const auto& heads = pattern_.heads;
  const Index farthest = distances.rows() - 1;
  const Index count = std::min(heads[0].reach_left, farthest) + 1;
  // Dilated heads have a section of their own; steps that go too far are seen by nobody.
  const bool dilated = heads.back().dilation > 1 && heads.front().dilation == 1;
  std::vector<Index> dilations = {heads.front().dilation};
  if (dilated) dilations.push_back(heads.back().dilation);
  std::vector<Index> rows;
  for (const Index dilation : dilations) {
    for (Index step = 0; step < count; ++step) rows.push_back(std::min(step * dilation, farthest));
  }
  const Tensor table = ops::select_rows(context, distances, rows);
  const Tensor keys = ops::project_heads(context, table, relative_->key,
                                         static_cast<Index>(heads.size()), pattern_.head_size)[0];
  if (!dilated) return keys;
  std::vector<Index> sections;
  for (const HeadPattern& head : heads) sections.push_back(head.dilation > 1 ? 1 : 0);
  return ops::head_sections(context, keys, count, sections);
}

std::unique_ptr<LayerState> CausalAttention::start(DType dtype, Index streams) const {
  const auto& last = pattern_.heads.back();
  return std::make_unique<RingPast>(
      ops::KeyRing({.heads = static_cast<Index>(pattern_.heads.size()),
                    .head_size = pattern_.head_size,
                    .past = last.reach_left * last.dilation,
                    .streams = streams},
                   dtype));
}

Tensor CausalAttention::forward(const ops::Context& context, const Tensor& x,
                                const LayerInput& in) const {
  if (in.observer != nullptr) {
    observe_by_values(context, *this, x, in, {std::ssize(pattern_.heads), pattern_.head_size});
  }
  auto projected =
      query_key_value_.is_infused()
          ? query_key_value_.project(context, x, in.shared.distances(), in.shared.places)
          : query_key_value_.project(context, x);
  if (in.values != nullptr) projected[2] = *in.values;
  kernels::AttentionSpec spec = {pattern_, in.shared.rows};
  spec.dropout = context.dropout(dropout_, place_);
  std::optional<ops::RelativePositions> relative;
  if (relative_) {
    relative = ops::RelativePositions{relative_->content_bias, relative_->position_bias, {}};
  }
  const auto attend = [&](const Tensor& key, const Tensor& value) {
    return ops::attention(context, spec, projected[0], key, value, relative ? &*relative : nullptr);
  };
  auto* past = static_cast<RingPast*>(in.state);
  if (past == nullptr) {
    if (relative) relative->keys = relative_keys(context, in.shared.distances());
    return attend(projected[1], projected[2]);
  }
  past->ring.append(projected[1], projected[2], in.shared.starts);
  if (relative) {
    const Index farthest = std::min(pattern_.heads[0].reach_left, past->ring.most_rows() - 1);
    if (past->relative_keys.empty() || past->relative_keys.dimension(1) <= farthest) {
      past->relative_keys = relative_keys(context, in.shared.distances());
    }
    relative->keys = past->relative_keys;
  }
  spec.rows = kernels::shared(rows_over(past->ring, in.shared.starts));
  return attend(past->ring.keys(), past->ring.values());
}

}  // namespace longformer::models
