// Tokens that the centroids of a head draw to their clusters (Routing Transformer, arXiv
// 2003.05997; docs/spec/other-attentions.md#routing).
//
// H heads, n rows, d head size, K centroids of a head.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace longformer::kernels {

/// Products of rows begin … begin + count − 1 of x [H, n, d], fp32 or bf16, with centroids
/// [H, K, d] fp32: scores [H, K, count] fp32.
void centroid_scores(const Tensor& x, Index begin, const Tensor& centroids, Tensor& scores,
                     int threads);

struct ScoredToken {
  float score = 0;
  std::int32_t token = 0;
};

/// The tokens with the `size` largest of the scores [H, K, count], in their order, for each head
/// and centroid; of equal scores the first tokens, and of NaN none before a number.
std::vector<std::vector<ScoredToken>> largest_scores(const Tensor& scores, Index size, int threads);

/// Adds a token behind the others of each list, with its scores [H, K, 1]. Lists of more than
/// `most` lose the token that is not among their largest; 0: none does.
void add_token(const Tensor& scores, std::int32_t token, Index most,
               std::vector<std::vector<ScoredToken>>& lists);

/// Whether the last token of a list is among its `size` largest.
bool has_last(std::span<const ScoredToken> list, Index size);
/// The `size` largest of a list likewise.
std::vector<ScoredToken> largest_of(std::vector<ScoredToken> list, Index size);

/// The centroid of each row that has the largest of the scores [H, K, count] there: [H, count].
std::vector<std::int32_t> nearest_centroids(const Tensor& scores, int threads);

/// Rows of x [H, n, d] from `begin` on, and the nearest centroid of each.
struct RoutedRows {
  const Tensor& x;
  Index begin = 0;
  /// [H, count]
  std::span<const std::int32_t> nearest;

  Index count() const { return std::ssize(nearest) / x.dimension(0); }
};

/// Adds every row, at the length of 1, to its centroid's sum [H, K, d] fp32.
void add_to_centroids(const RoutedRows& rows, Tensor& sums, int threads);

/// Mean of (factor · x − µ)² over all numbers of all heads, with the centroid µ [H, K, d] of each
/// row.
double centroid_distance(const RoutedRows& rows, const Tensor& centroids, float factor);
/// Adds slope times its gradient to dx, which is like x.
void centroid_distance_backward(const RoutedRows& rows, const Tensor& centroids, float factor,
                                float slope, Tensor& dx, int threads);

}  // namespace longformer::kernels
