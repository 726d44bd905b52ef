// Attention along the edges of a graph (docs/spec/other-attentions.md#edges) as an op, alone or as
// a part of one softmax (ops::attention_over).
#pragma once

#include <optional>

#include "kernels/attention/edges.h"
#include "kernels/attention/merge.h"
#include "ops/context.h"

namespace longformer::ops {

using kernels::EdgeAttention;
using kernels::EdgeRows;

/// Keys that queries see along edges.
struct EdgeGroup {
  EdgeAttention spec;
  /// [H, m, d]
  Tensor key, value;
  /// [H, L, d] and [H, L], fp32 (kernels::EdgeLabels).
  std::optional<Tensor> label_keys = std::nullopt, label_biases = std::nullopt;
};

bool wants_gradient(const EdgeGroup& group);

/// Head-major query [H, n, d]; the result is token-major [n, H·d], zeros where a query has no edge.
Tensor edge_attention(const Context& context, const Tensor& query, const EdgeGroup& group);

/// The part of a softmax that the edges are.
kernels::AttentionPart edge_part(const Context& context, const Tensor& query,
                                 const EdgeGroup& group);

/// Sends the gradient of a softmax, whose results are given, to the query and to what its edges
/// see.
struct SoftmaxResult {
  Tensor query, out, logsumexp;
};
void edge_part_backward(const Context& context, const SoftmaxResult& forward,
                        const EdgeGroup& group, const Tensor& gradient);

}  // namespace longformer::ops
