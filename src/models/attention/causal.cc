#include "models/attention/causal.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/key_ring.h"
#include "ops/positions.h"

namespace longformer::models {
namespace {

/// The keys and values that later tokens still see.
class Past final : public LayerState {
 public:
  explicit Past(ops::KeyRing ring) : ring(std::move(ring)) {}

  std::unique_ptr<LayerState> copy() const override {
    auto same = std::make_unique<Past>(*this);
    // The ring of a copy would be the same memory.
    std::vector<Index> all(at(ring.streams()));
    std::iota(all.begin(), all.end(), 0);
    same->ring.reorder(all);
    return same;
  }
  std::int64_t bytes() const override {
    return ring.bytes() + static_cast<std::int64_t>(relative_keys.bytes());
  }
  void reorder(std::span<const Index> sources) override { ring.reorder(sources); }
  std::vector<Tensor> saved() const override {
    std::vector<Tensor> tensors;
    for (Index s = 0; s < ring.streams(); ++s) {
      tensors.push_back(ring.kept_keys(s));
      tensors.push_back(ring.kept_values(s));
    }
    return tensors;
  }
  void restore(std::span<const Tensor> saved) override;

  ops::KeyRing ring;
  /// W_r·R of all distances, made once.
  Tensor relative_keys = {};
};

void Past::restore(std::span<const Tensor> saved) {
  const Index streams = ring.streams();
  require(static_cast<Index>(saved.size()) == 2 * streams,
          "state: expected keys and values of {} streams, found {} tensors", streams, saved.size());
  for (Index s = 0; s < streams; ++s) {
    const Tensor& keys = saved[at(2 * s)];
    const Tensor& values = saved[at(2 * s + 1)];
    const Shape& own = ring.keys().shape();
    const bool fits = keys.shape() == values.shape() && keys.shape().size() == 3 &&
                      keys.dimension(0) == own[0] && keys.dimension(2) == own[2] &&
                      keys.dtype() == ring.keys().dtype() && values.dtype() == keys.dtype();
    require(fits, "state: expected keys and values [{}, n, {}] of {}, found {} of {}", own[0],
            own[2], name_of(ring.keys().dtype()), to_string(keys.shape()), name_of(keys.dtype()));
    ring.append_to(s, keys, values);
  }
}

/// Rows of queries that follow each other, and for each stream the part of the ring that it sees.
std::shared_ptr<const kernels::AttentionRows> rows_over(const ops::KeyRing& ring,
                                                        std::span<const Index> starts) {
  kernels::AttentionRows rows;
  for (Index s = 0; s < ring.streams(); ++s) {
    const Index count = starts[at(s + 1)] - starts[at(s)];
    rows.documents.push_back({.query_begin = starts[at(s)],
                              .query_count = count,
                              .key_begin = ring.begin(s),
                              .key_count = ring.count(s),
                              .query_offset = ring.count(s) - count});
  }
  // The empty document takes the rows of the ring that hold nothing.
  rows.documents.push_back({.query_begin = starts.back(), .key_begin = ring.keys().dimension(1)});
  return kernels::shared(std::move(rows));
}

}  // namespace

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
                                   Init::normal(source.initializer_range));
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
  return std::make_unique<Past>(ops::KeyRing({.heads = static_cast<Index>(pattern_.heads.size()),
                                              .head_size = pattern_.head_size,
                                              .past = last.reach_left * last.dilation,
                                              .streams = streams},
                                             dtype));
}

Tensor CausalAttention::forward(const ops::Context& context, const Tensor& x,
                                const LayerInput& in) const {
  const auto projected =
      query_key_value_.is_infused()
          ? query_key_value_.project(context, x, in.shared.distances(), in.shared.places)
          : query_key_value_.project(context, x);
  kernels::AttentionSpec spec = {pattern_, in.shared.rows};
  spec.dropout = context.dropout(dropout_, place_);
  std::optional<ops::RelativePositions> relative;
  if (relative_) {
    relative = ops::RelativePositions{relative_->content_bias, relative_->position_bias, {}};
  }
  const auto attend = [&](const Tensor& key, const Tensor& value) {
    return ops::attention(context, spec, projected[0], key, value, relative ? &*relative : nullptr);
  };
  auto* past = static_cast<Past*>(in.state);
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
  spec.rows = rows_over(past->ring, in.shared.starts);
  return attend(past->ring.keys(), past->ring.values());
}

}  // namespace longformer::models
