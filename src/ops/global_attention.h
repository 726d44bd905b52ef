// The rows of global tokens, which see everything and have projections of their own (spec.md A.4).
#pragma once

#include "ops/attention.h"

namespace longformer::ops {

/// The second set of projections, which global tokens use: weights [D, D] and biases [D], fp32.
struct GlobalProjections {
  Tensor query_weight, query_bias;
  Tensor key_weight, key_bias;
  Tensor value_weight, value_bias;
};
inline bool wants_gradient(const GlobalProjections& p) {
  return wants_gradient(p.query_weight) || wants_gradient(p.query_bias) ||
         wants_gradient(p.key_weight) || wants_gradient(p.key_bias) ||
         wants_gradient(p.value_weight) || wants_gradient(p.value_bias);
}

/// Overwrites the rows of the global tokens in `attended` [n, D] with q̂·k̂ attention over every
/// visible token of their document. x [n, D] is the layer input.
///
/// Up to d global tokens per document the keys and values of all n tokens are never projected:
/// q̂·(K x + b) = (Kᵀq̂)·x + const, and Σ p (V x + b) = V (Σ p x) + b, which costs 4·n·D·g·H instead
/// of 4·n·D² (performance.md §3.4).
void global_attention(const Context& context, const AttentionSpec& spec,
                      const GlobalProjections& projections, const Tensor& x, Tensor& attended);

}  // namespace longformer::ops
