// Probabilities of the heads of a layer, in the layout of `transformers`
// (docs/spec/attention.md#a4).
#pragma once

#include <functional>
#include <span>

#include "kernels/attention/probabilities.h"
#include "ops/attention.h"
#include "ops/global_attention.h"

namespace longformer::ops {

/// One head of one document of n tokens with x global ones.
struct HeadProbabilities {
  kernels::DocumentHead which;
  /// [n, x + w + 1] fp32 for a window, [n, n] for dense attention. Rows of masked tokens are zero,
  /// and so are those of global tokens, whose probabilities are in `global`.
  Tensor local;
  /// [n, x]: how much global token c (column) attends to token i (row); empty without any.
  Tensor global;
};

using ScoreTerm = kernels::ScoreTerm;

/// Tensors that are there while a layer runs. x [n, D] is its input; both pointers are null where
/// global tokens have no projections of their own.
struct ProbabilityInputs {
  const Tensor& query;
  const Tensor& key;
  const Tensor* x = nullptr;
  const GlobalProjections* projections = nullptr;
  /// See KeyGroup; null for none.
  const Tensor* distance_bias = nullptr;
  const DistanceKeys* distance_keys = nullptr;
  const RelativePositions* relative = nullptr;
  /// Makes that of a document of n tokens, for heads that see everything; may be empty, and so may
  /// what it makes.
  std::function<ScoreTerm(Index n)> score_term = {};
};

/// Computes the probabilities of the given heads and hands them over one by one, document by
/// document; at most one head is in memory. query and key are head-major [H, n, d].
void attention_probabilities(const Context& context, const AttentionSpec& spec,
                             const ProbabilityInputs& in, std::span<const Index> heads,
                             const std::function<void(const HeadProbabilities&)>& observe);

}  // namespace longformer::ops
