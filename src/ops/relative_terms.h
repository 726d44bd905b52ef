// Parts of the terms of relative positions (docs/spec/other-attentions.md#funnel): relative
// keys from a table of distances by a kernel of their own, and scores of kinds of keys, such as
// segments.
#pragma once

#include <memory>

#include "kernels/relative_terms.h"
#include "ops/context.h"

namespace longformer::ops {

using kernels::KindRelations;

/// table [P, D] times kernel [D, H, d], [H, P, d] of the dtype of the context. The table is fp32
/// and gets no gradient.
Tensor table_heads(const Context& context, const Tensor& table, const Tensor& kernel);

/// A bias s [H, d] of queries, and rows g [2, H, d] for keys of other kinds and of the same; fp32.
struct KindWeights {
  Tensor bias, segments;
};
inline bool wants_gradient(const KindWeights& weights) {
  return wants_gradient(weights.bias) || wants_gradient(weights.segments);
}

/// (q + s)·g / √d for every query [H, n, d] and kind of key, [H, n, K] fp32
/// (RelativePositions::kind_scores).
Tensor kind_scores(const Context& context, const Tensor& query, const KindWeights& weights,
                   std::shared_ptr<const KindRelations> relations);

}  // namespace longformer::ops
