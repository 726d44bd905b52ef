// Clusters of a Routing Transformer (arXiv 2003.05997; docs/spec/other-attentions.md#routing) in a
// training: what centroids gather, and how far tokens are from them.
#pragma once

#include <memory>
#include <vector>

#include "kernels/attention/centroids.h"
#include "ops/context.h"

namespace longformer::ops {

/// A text of a pass: rows `begin` … of x [H, n, d], and the nearest centroid of each [H, count].
struct RoutedText {
  Index begin = 0;
  std::vector<std::int32_t> nearest;
};

/// x itself; on the way back its rows are added to the sums that a step moves the centroids
/// [H, K, d] towards, where these are trained (training::Parameter::averages).
Tensor gather_to_centroids(const Context& context, const Tensor& x, const Tensor& centroids,
                           std::shared_ptr<const std::vector<RoutedText>> texts);

/// weight · mean of (factor · x − µ)² over all numbers, [1] fp32; the gradient goes to x alone.
struct CentroidLoss {
  float factor = 1, weight = 0;
};
Tensor centroid_loss(const Context& context, const Tensor& x, const Tensor& centroids,
                     std::shared_ptr<const std::vector<RoutedText>> texts,
                     const CentroidLoss& loss);

}  // namespace longformer::ops
