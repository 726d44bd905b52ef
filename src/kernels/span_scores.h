// Scores of spans of rows: short runs of words that may be mentions, and what links them
// (Kirstain et al. 2021, "Coreference Resolution without Span Representations").
//
// n rows, f columns, C spans, k of them kept.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "kernels/losses.h"

namespace longformer::kernels {

/// The spans that begin in each row: i…i, i…i+1 and so on, numbered in this order.
struct SpanTable {
  /// [n + 1]: those of row i are numbers first[i] … first[i + 1] − 1.
  std::vector<Index> first = {0};
  Index widest = 0;

  /// `counts` has the number of spans of each row, none of which ends behind the last row.
  static SpanTable of(std::span<const Index> counts);
  Index rows() const { return static_cast<Index>(first.size()) - 1; }
  Index size() const { return first.back(); }
};

/// starts [n, 1] and ends [n, 1] fp32; query and key [n, f] fp32, for span_scores() bf16, too.
struct SpanFactors {
  const Tensor& starts;
  const Tensor& ends;
  const Tensor& query;
  const Tensor& key;
  float scale = 1;
};

/// The score of span i…j is starts[i] + ends[j] + scale·query[i]·key[j]; scores [C, 1].
void span_scores(const SpanTable& spans, const SpanFactors& factors, Tensor& scores, int threads);

/// Gradients of the factors; each is written whole.
struct SpanGradients {
  Tensor& starts;
  Tensor& ends;
  Tensor& query;
  Tensor& key;
};
void span_scores_backward(const SpanTable& spans, const SpanFactors& factors,
                          const Tensor& gradient, const SpanGradients& to, int threads);

/// Spans whose scores with all before them are in memory at a time.
inline constexpr Index kLinkRows = 256;
/// The `count` rows with the highest of scores [C, 1] fp32, in order; the first of equal ones, and
/// NaN below all others.
std::vector<Index> highest_rows(const Tensor& scores, Index count);
/// Those of the rows whose score is above 0.
std::vector<Index> rows_above_zero(const Tensor& scores, std::span<const Index> rows);

/// How k spans in order link to those before them: the score of u with v is mentions[u] +
/// mentions[v] + scale·(start_query[u]·start_key[v] + end_query[u]·end_key[v]), that of u with
/// nothing is 0. mentions [k, 1] fp32, the others [k, f] fp32;
/// without gradients bf16, too.
struct SpanLinks {
  const Tensor& mentions;
  const Tensor& start_query;
  const Tensor& end_query;
  const Tensor& start_key;
  const Tensor& end_key;
  float scale = 1;

  Index size() const { return mentions.rows(); }
};

/// Gradients of links, of the same shapes.
struct LinkGradients {
  Tensor& mentions;
  Tensor& start_query;
  Tensor& end_query;
  Tensor& start_key;
  Tensor& end_key;
};

/// Sum over the spans of −log of the probability that a softmax over nothing and all spans before
/// gives to those of the same cluster together, or to nothing where there are none. `clusters` [k]
/// is −1 for spans of none. Writes the gradients of options.scale times the sum unless `to` is
/// null. Scores exist for a block of rows at a time.
LossSum antecedent_loss(const SpanLinks& links, std::span<const std::int32_t> clusters,
                        const LossOptions& options, const LinkGradients* to, int threads);

/// The span before each with the highest score, the latest of equal ones; −1 where that is not
/// above 0.
std::vector<Index> best_antecedents(const SpanLinks& links, int threads);

}  // namespace longformer::kernels
