// The rows of global tokens, which see everything and have projections of their own
// (docs/spec/attention.md#a4).
#pragma once

#include "core/tape.h"
#include "kernels/attention/global_rows.h"
#include "ops/attention.h"

namespace longformer::kernels {

/// Whether any of the projections is trained; ops find it beside their type.
inline bool wants_gradient(const GlobalProjections& p) {
  return wants_gradient(p.query_weight) || wants_gradient(p.query_bias) ||
         wants_gradient(p.key_weight) || wants_gradient(p.key_bias) ||
         wants_gradient(p.value_weight) || wants_gradient(p.value_bias);
}

}  // namespace longformer::kernels

namespace longformer::ops {

using kernels::GlobalProjections;

/// Overwrites the rows of the global tokens in `attended` [n, D] with q̂·k̂ attention over every
/// visible token of their document. x [n, D] is the layer input.
///
/// Up to d global tokens per document the keys and values of all n tokens are never projected:
/// q̂·(K x + b) = (Kᵀq̂)·x + const, and Σ p (V x + b) = V (Σ p x) + b, which costs 4·n·D·g·H instead
/// of 4·n·D² (docs/spec/performance.md#p4).
void global_attention(const Context& context, const AttentionSpec& spec,
                      const GlobalProjections& projections, const Tensor& x, Tensor& attended);

}  // namespace longformer::ops
