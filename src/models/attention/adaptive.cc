#include "models/attention/adaptive.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "models/attention/ring_past.h"
#include "ops/attention.h"

namespace longformer::models {
namespace {

/// Queries stand at the place of the token before: their own one is not seen.
kernels::AttentionRows one_place_back(kernels::AttentionRows rows) {
  rows.self_attention = false;
  for (auto& document : rows.documents) document.query_offset -= 1;
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
      spans_(source.weights.get_finite(name_in(layer, "spans"), {config.heads},
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
  return std::make_unique<RingPast>(ops::KeyRing(
      {.heads = heads_, .head_size = head_size_ + 1, .past = reach(), .streams = streams}, dtype));
}

Tensor AdaptiveAttention::forward(const ops::Context& context, const Tensor& x,
                                  const LayerInput& in) const {
  const Index n = x.rows(), wide = head_size_ + 1;
  if (in.observer != nullptr) observe_by_values(context, *this, x, in, {heads_, head_size_});
  std::vector<Tensor> projected = query_key_value_.project(context, x);
  if (in.values != nullptr) projected[2] = *in.values;
  for (Tensor& part : projected) {
    // The kernel divides scores by √(d + 1).
    const double factor = std::sqrt(static_cast<double>(wide) / static_cast<double>(head_size_));
    const bool is_query = &part == projected.data();
    part = ops::resized_rows(context, part,
                             {head_size_, wide, is_query ? static_cast<float>(factor) : 1.0f},
                             {heads_, n, wide});
  }
  auto* past = static_cast<RingPast*>(in.state);
  if (past != nullptr) past->ring.append(projected[1], projected[2], in.shared.starts);
  const std::vector<Index> counts = ops::span_counts(spans_, ramp_);
  kernels::AttentionSpec spec;
  spec.head_size = wide;
  spec.causal = spec.relative_positions = true;
  spec.dropout = context.dropout(dropout_, place_);
  for (const Index count : counts) spec.heads.push_back({.reach_left = count - 1});
  const std::span<const Index> starts = in.shared.starts;
  kernels::AttentionRows rows = one_place_back(
      past == nullptr ? kernels::self_attention_rows(starts) : rows_over(past->ring, starts));
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
