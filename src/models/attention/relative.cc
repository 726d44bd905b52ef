#include "models/attention/relative.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/key_ring.h"
#include "ops/relative_positions.h"

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

RelativeAttention::RelativeAttention(const LanguageModelConfig& config, Index layer,
                                     const LayerSource& source)
    : pattern_{.head_size = config.head_size,
               .heads = config.pattern(layer),
               .causal = true,
               .relative_positions = true},
      dropout_(config.attention_dropout),
      place_(layer_place(layer)),
      content_bias_(source.weights.get_fp32("relative_content", {config.heads, config.head_size},
                                            Init::normal(source.initializer_range))),
      position_bias_(source.weights.get_fp32("relative_position", {config.heads, config.head_size},
                                             Init::normal(source.initializer_range))),
      query_key_value_(linear(source, name_in(layer, "query_key_value"),
                              {3 * config.heads * config.head_size, config.hidden_size},
                              {.has_bias = false})),
      relative_key_(linear(source, name_in(layer, "relative_key"),
                           {config.heads * config.head_size, config.hidden_size},
                           {.has_bias = false})) {}

void RelativeAttention::set_window(Index window) {
  for (HeadPattern& head : pattern_.heads) head.reach_left = window;
}

/// r [H, m, d] with as many distances as there are and the window needs.
Tensor RelativeAttention::relative_keys(const ops::Context& context,
                                        const Tensor& distances) const {
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
  const Tensor keys = ops::project_heads(context, table, relative_key_,
                                         static_cast<Index>(heads.size()), pattern_.head_size)[0];
  if (!dilated) return keys;
  std::vector<Index> sections;
  for (const HeadPattern& head : heads) sections.push_back(head.dilation > 1 ? 1 : 0);
  return ops::head_sections(context, keys, count, sections);
}

std::unique_ptr<LayerState> RelativeAttention::start(DType dtype, Index streams) const {
  const auto& last = pattern_.heads.back();
  return std::make_unique<Past>(ops::KeyRing({.heads = static_cast<Index>(pattern_.heads.size()),
                                              .head_size = pattern_.head_size,
                                              .past = last.reach_left * last.dilation,
                                              .streams = streams},
                                             dtype));
}

Tensor RelativeAttention::forward(const ops::Context& context, const Tensor& x,
                                  const LayerInput& in) const {
  const auto projected = ops::project_heads(
      context, x, query_key_value_, static_cast<Index>(pattern_.heads.size()), pattern_.head_size);
  kernels::AttentionSpec spec = {pattern_, in.shared.rows};
  spec.dropout = context.dropout(dropout_, place_);
  ops::RelativePositions relative = {
      .content_bias = content_bias_, .position_bias = position_bias_, .keys = {}};
  auto* past = static_cast<Past*>(in.state);
  if (past == nullptr) {
    relative.keys = relative_keys(context, in.shared.distances());
    return ops::attention(context, spec, projected[0], projected[1], projected[2], &relative);
  }
  past->ring.append(projected[1], projected[2], in.shared.starts);
  const Index farthest = std::min(pattern_.heads[0].reach_left, past->ring.most_rows() - 1);
  if (past->relative_keys.empty() || past->relative_keys.dimension(1) <= farthest) {
    past->relative_keys = relative_keys(context, in.shared.distances());
  }
  relative.keys = past->relative_keys;
  spec.rows = rows_over(past->ring, in.shared.starts);
  return ops::attention(context, spec, projected[0], past->ring.keys(), past->ring.values(),
                        &relative);
}

}  // namespace longformer::models
