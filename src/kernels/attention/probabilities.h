// The probabilities that attention weighs values with, head by head and without n² memory: what a
// person looks at. The backends never store them.
#pragma once

#include <functional>
#include <span>

#include "kernels/attention/attention.h"

namespace longformer::kernels {

/// One head of one document of a spec.
struct DocumentHead {
  Index document = 0;
  Index head = 0;
};

/// Layout of the probabilities of a head: one row per query of the document. In the band form the
/// columns are the global keys of the document in ascending order, then the offsets
/// −most_left() … most_right() of the window, the layout of `transformers`
/// (docs/spec/attention.md#a4). With a reach without limit the form is dense: column j is key j of
/// the document, global or not.
struct ProbabilityLayout {
  Index rows = 0;
  Index globals = 0;
  Index columns = 0;
  bool dense = false;
};
ProbabilityLayout probability_layout(const AttentionSpec& spec, DocumentHead which);

/// A number that is added to the score of a query and a key of the document; −∞ hides the key.
using ScoreTerm = std::function<float(Index query, Index key)>;

/// Inputs as for attention(): query and key are head-major [H, n, d], fp32 or bf16.
struct ScoreInputs {
  const Tensor& query;
  const Tensor& key;
  const Tensor* distance_bias = nullptr;
  const DistanceKeys* distance_keys = nullptr;
  const RelativePositions* relative = nullptr;
  /// May be empty. Of the dense form only.
  ScoreTerm term = {};
};

/// Writes softmax(q·kᵀ/√d), with the terms of positions that the spec has, of every query over the
/// keys that it sees to out [rows, columns]; what a query does not see is 0, and so is a global key
/// at its place in the window, as it counts once. Throws Error when global queries see everything
/// and the form is not dense: their keys have no columns.
void attention_probabilities(const AttentionSpec& spec, const ScoreInputs& in, DocumentHead which,
                             std::span<float> out, int threads);

}  // namespace longformer::kernels
