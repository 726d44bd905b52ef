// Attention of one layer: what every token sees in its window, and the global keys
// (docs/spec/attention.md#a4).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/few_queries.h"
#include "ops/context.h"
#include "ops/edge_attention.h"

namespace longformer::ops {

using kernels::AttentionSpec;

/// Positions as in Transformer-XL (docs/spec/language-models.md#d2, #g1;
/// kernels::RelativePositions).
struct RelativePositions {
  /// u and v [H, d] fp32.
  Tensor content_bias, position_bias;
  /// r [H, m, d]: row t belongs to t dilation steps of its head, or to what places say.
  Tensor keys;
  /// [H, n, K] fp32, given exactly when keys have kinds (ops/relative_terms.h).
  std::optional<Tensor> kind_scores = std::nullopt;
};
inline bool wants_gradient(const RelativePositions& relative) {
  return wants_gradient(relative.content_bias) || wants_gradient(relative.position_bias) ||
         wants_gradient(relative.keys) ||
         (relative.kind_scores && wants_gradient(*relative.kind_scores));
}

/// Head-major inputs [H, n, d]; the result is token-major [n, H·d]. Relative positions are given
/// exactly when the spec has them.
Tensor attention(const Context& context, const AttentionSpec& spec, const Tensor& query,
                 const Tensor& key, const Tensor& value,
                 const RelativePositions* relative = nullptr);

/// Keys and queries of distances, as in DeBERTa (kernels::DistanceKeys): [H, P, d], of which one
/// may be absent.
struct DistanceKeys {
  std::optional<Tensor> keys, queries;
  std::shared_ptr<const std::vector<std::int32_t>> rows;
};

/// Keys that queries see beside those of other groups.
struct KeyGroup {
  AttentionSpec spec;
  /// [H, n, d]
  Tensor key, value;
  /// Given exactly when the spec has relative positions.
  std::optional<RelativePositions> relative = std::nullopt;
  /// Given exactly when the spec has biases by distance: [H, 2R + 1] fp32
  /// (kernels::AttentionArguments).
  std::optional<Tensor> distance_bias = std::nullopt;
  /// Given exactly when the spec has keys of distances.
  std::optional<DistanceKeys> distance_keys = std::nullopt;
};

/// Positions as kernels take them.
kernels::DistanceKeys view_of(const DistanceKeys& distances);
kernels::RelativePositions view_of(const RelativePositions& relative);

/// One softmax over the keys of all groups and edges; the rows of queries of their specs are the
/// same.
Tensor attention_over(const Context& context, const Tensor& query, std::span<const KeyGroup> groups,
                      std::span<const EdgeGroup> edges = {});

/// A decoder's attention to keys that it keeps: see kernels::attend_few_queries. It has no backward
/// pass. query [H, R, d]; the result is token-major [R, H·d].
Tensor attention_to_kept(const Context& context, const Tensor& query,
                         std::span<const kernels::KeySource> sources);

}  // namespace longformer::ops
