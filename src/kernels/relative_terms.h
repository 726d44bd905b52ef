// Parts of the terms of relative positions, before attention (kernels::RelativePositions): relative
// keys from a table of distances, and scores of kinds of keys
// (docs/spec/other-attentions.md#funnel).
//
// H heads, d head size, n queries, K kinds.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace longformer::kernels {

/// Writes table [P, D] times kernel [D, H, d] to heads [H, P, d]; all fp32.
void table_heads(const Tensor& table, const Tensor& kernel, Tensor& heads, int threads);
/// Adds to the gradient of the kernel from that of the heads, both fp32.
void table_heads_backward(const Tensor& table, const Tensor& gradient, Tensor& kernel, int threads);

/// How each query stands to each kind of key.
struct KindRelations {
  static constexpr std::uint8_t kOther = 0, kSame = 1, kNone = 2;
  Index kinds = 0;
  /// [n, K]
  std::vector<std::uint8_t> of_query = {};
};

/// A bias s [H, d] of queries and rows g [2, H, d] for other kinds and for the same, both fp32.
struct KindParts {
  const Tensor& bias;
  const Tensor& segments;
  const KindRelations& relations;
};

/// Writes (q + s)·g / √d, with the g that the relation says, or 0 for none, to scores [H, n, K]
/// fp32; query is [H, n, d].
void kind_scores(const Tensor& query, const KindParts& parts, Tensor& scores, int threads);
/// From the gradient of the scores: writes that of the queries in their dtype, and adds to those of
/// s and g.
struct KindGradients {
  Tensor& query;
  Tensor& bias;
  Tensor& segments;
};
void kind_scores_backward(const Tensor& query, const KindParts& parts, const Tensor& gradient,
                          const KindGradients& to, int threads);

}  // namespace longformer::kernels
