#include "models/attention/tree.h"

#include <cmath>
#include <vector>

#include "core/error.h"
#include "models/attention/ring_past.h"
#include "ops/edge_attention.h"
#include "ops/heads.h"
#include "ops/span_masks.h"

namespace longformer::models {
namespace {

/// The edges of the rows of a pass to all nodes of their texts, which the ring keeps.
kernels::EdgeRows edges_over(const TreeConfig& tree, const ops::KeyRing& ring,
                             const SharedInput& shared, bool has_labels) {
  std::vector<TreePiece> pieces;
  for (Index s = 0; s < ring.streams(); ++s) {
    pieces.push_back({.before = shared.read[at(s)],
                      .tokens = shared.token_starts[at(s + 1)] - shared.token_starts[at(s)],
                      .first_key = ring.begin(s)});
  }
  return tree_edges(tree, pieces, has_labels);
}

}  // namespace

TreeAttention::TreeAttention(const LanguageModelConfig& config, Index layer,
                             const LayerSource& source)
    : tree_(config.tree),
      heads_(config.heads),
      head_size_(config.head_size),
      dropout_(config.attention_dropout),
      place_(layer_place(layer)),
      query_key_value_(config, layer, source) {
  if (config.positions != Positions::tree_keys) return;
  edge_keys_ =
      source.weights.get_fp32(name_in(layer, "tree_keys.weight"), {tree_.labels(), head_size_},
                              Init::normal(source.initial.deviation));
}

std::unique_ptr<LayerState> TreeAttention::start(DType dtype, Index streams) const {
  return std::make_unique<RingPast>(ops::KeyRing(
      {.heads = heads_, .head_size = head_size_, .past = kMaxReach, .streams = streams}, dtype));
}

/// r [H, L, d].
Tensor TreeAttention::label_keys(const ops::Context& context) const {
  const Tensor one_head = ops::resized_rows(context, edge_keys_, {head_size_, head_size_, 1},
                                            {1, tree_.labels(), head_size_});
  return ops::take_heads(context, one_head, std::vector<Index>(at(heads_), Index{0}));
}

Tensor TreeAttention::forward(const ops::Context& context, const Tensor& x,
                              const LayerInput& in) const {
  require(
      in.observer == nullptr,
      "attention: expected a model whose tokens attend to tokens, found one whose tokens attend "
      "to spans of a tree");
  const std::vector<Tensor> projected = query_key_value_.project(context, x);
  ops::EdgeGroup group = {.spec = {.heads = heads_,
                                   .head_size = head_size_,
                                   .scale = 1 / std::sqrt(static_cast<float>(head_size_)),
                                   .rows = in.shared.edges,
                                   .dropout = context.dropout(dropout_, place_)},
                          .key = projected[1],
                          .value = projected[2]};
  const bool has_labels = !edge_keys_.empty();
  auto* past = static_cast<RingPast*>(in.state);
  if (past != nullptr) {
    past->ring.append(group.key, group.value, in.shared.starts);
    group.spec.rows = std::make_shared<const kernels::EdgeRows>(
        edges_over(tree_, past->ring, in.shared, has_labels));
    group.key = past->ring.keys();
    group.value = past->ring.values();
    if (has_labels && past->relative_keys.empty()) past->relative_keys = label_keys(context);
    if (has_labels) group.label_keys = past->relative_keys;
  }
  if (has_labels && past == nullptr) group.label_keys = label_keys(context);
  return ops::edge_attention(context, projected[0], group);
}

}  // namespace longformer::models
