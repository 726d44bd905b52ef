#include "models/attention/adaptive.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "core/error.h"
#include "ops/attention.h"
#include "ops/key_ring.h"

namespace longformer::models {
namespace {

/// Keys and values that the head with the longest span still sees.
class SpannedPast final : public LayerState {
 public:
  explicit SpannedPast(ops::KeyRing ring) : ring(std::move(ring)) {}

  std::unique_ptr<LayerState> copy() const override {
    auto same = std::make_unique<SpannedPast>(*this);
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
  /// Those of all distances, made once.
  Tensor relative_keys = {};
};

void SpannedPast::restore(std::span<const Tensor> saved) {
  const Index streams = ring.streams();
  require(std::ssize(saved) == 2 * streams,
          "state: expected keys and values of {} streams, found {} tensors", streams, saved.size());
  const Shape own = ring.keys().shape();
  for (Index s = 0; s < streams; ++s) {
    const Tensor &key = saved[at(2 * s)], &value = saved[at(2 * s + 1)];
    const bool fits = key.shape().size() == 3 && key.shape() == value.shape() &&
                      key.dimension(0) == own[0] && key.dimension(2) == own[2] &&
                      key.dtype() == ring.keys().dtype() && value.dtype() == key.dtype();
    require(fits, "state: expected keys and values [{}, n, {}] of {}, found {} of {}", own[0],
            own[2], name_of(ring.keys().dtype()), to_string(key.shape()), name_of(key.dtype()));
    if (key.dimension(1) > 0) ring.append_to(s, key, value);
  }
}

/// Queries at the place of the token before: their own one is not seen.
void add_document(Index query_begin, Index queries, Index key_begin, Index keys,
                  kernels::AttentionRows& rows) {
  rows.documents.push_back({.query_begin = query_begin,
                            .query_count = queries,
                            .key_begin = key_begin,
                            .key_count = keys,
                            .query_offset = keys - queries - 1});
}

kernels::AttentionRows rows_of(std::span<const Index> starts, const ops::KeyRing* ring) {
  kernels::AttentionRows rows;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const Index count = starts[i + 1] - starts[i];
    const auto stream = static_cast<Index>(i);
    add_document(starts[i], count, ring == nullptr ? starts[i] : ring->begin(stream),
                 ring == nullptr ? count : ring->count(stream), rows);
  }
  if (ring != nullptr) {
    // The empty document takes the rows of the ring that hold nothing.
    rows.documents.push_back(
        {.query_begin = starts.back(), .key_begin = ring->keys().dimension(1)});
  }
  return rows;
}

}  // namespace

AdaptiveAttention::AdaptiveAttention(const LanguageModelConfig& config, Index layer,
                                     const LayerSource& source)
    : ramp_(config.spans.ramp),
      heads_(config.heads),
      head_size_(config.head_size),
      dropout_(config.attention_dropout),
      loss_(config.spans.loss * static_cast<double>(ramp_.longest * config.layers)),
      place_(layer_place(layer)),
      query_key_value_(config, layer, source),
      spans_(source.weights.get_fp32(name_in(layer, "spans"), {config.heads},
                                     Init::constant(config.spans.initial))),
      distances_(source.weights.get_fp32("distance_keys.weight", {ramp_.longest, config.head_size},
                                         Init::normal(1))),
      content_bias_(Tensor::zeros({heads_, head_size_ + 1}, DType::f32)) {
  std::vector<float> last;
  for (Index head = 0; head < heads_; ++head) {
    last.insert(last.end(), at(head_size_), 0.0f);
    last.push_back(1);
  }
  position_bias_ = Tensor::from(last, {heads_, head_size_ + 1});
}

Index AdaptiveAttention::reach() const {
  const std::vector<Index> counts = ops::span_counts(spans_, ramp_);
  return *std::max_element(counts.begin(), counts.end());
}

std::unique_ptr<LayerState> AdaptiveAttention::start(DType dtype, Index streams) const {
  return std::make_unique<SpannedPast>(ops::KeyRing(
      {.heads = heads_, .head_size = head_size_ + 1, .past = reach(), .streams = streams}, dtype));
}

Tensor AdaptiveAttention::forward(const ops::Context& context, const Tensor& x,
                                  const LayerInput& in) const {
  const Index n = x.rows(), wide = head_size_ + 1;
  std::vector<Tensor> projected = query_key_value_.project(context, x);
  for (Tensor& part : projected) {
    // The kernel divides scores by √(d + 1).
    const double factor = std::sqrt(static_cast<double>(wide) / static_cast<double>(head_size_));
    const bool is_query = &part == projected.data();
    part = ops::resized_rows(context, part,
                             {head_size_, wide, is_query ? static_cast<float>(factor) : 1.0f},
                             {heads_, n, wide});
  }
  auto* past = static_cast<SpannedPast*>(in.state);
  if (past != nullptr) past->ring.append(projected[1], projected[2], in.shared.starts);
  const std::vector<Index> counts = ops::span_counts(spans_, ramp_);
  kernels::AttentionSpec spec;
  spec.head_size = wide;
  spec.causal = spec.relative_positions = true;
  spec.dropout = context.dropout(dropout_, place_);
  for (const Index count : counts) spec.heads.push_back({.reach_left = count - 1});
  kernels::AttentionRows rows = rows_of(in.shared.starts, past == nullptr ? nullptr : &past->ring);
  Index most = *std::max_element(counts.begin(), counts.end());
  ops::RelativePositions relative = {content_bias_, position_bias_, {}};
  if (past == nullptr) {
    Index longest = 1;
    for (const auto& document : rows.documents) longest = std::max(longest, document.key_count);
    relative.keys = ops::span_keys(context, spans_, distances_, ramp_, std::min(most, longest));
  } else {
    if (past->relative_keys.empty()) {
      past->relative_keys = ops::span_keys(context, spans_, distances_, ramp_, most);
    }
    relative.keys = past->relative_keys;
  }
  spec.rows = kernels::shared(std::move(rows));
  if (in.losses != nullptr && loss_ > 0) {
    in.losses->emplace_back(kSpanLoss, ops::span_loss(context, spans_, static_cast<float>(loss_)));
  }
  const Tensor& keys = past == nullptr ? projected[1] : past->ring.keys();
  const Tensor& values = past == nullptr ? projected[2] : past->ring.values();
  const Tensor attended = ops::attention(context, spec, projected[0], keys, values, &relative);
  return ops::resized_rows(context, attended, {wide, head_size_, 1}, {n, heads_ * head_size_});
}

}  // namespace longformer::models
