#include "ops/centroids.h"

#include <algorithm>
#include <utility>

#include "ops/device.h"
#include "ops/gradients.h"

namespace longformer::ops {
namespace {

/// The part of all rows that a text has.
double share_of(const RoutedText& text, const std::vector<RoutedText>& all) {
  std::size_t sum = 0;
  for (const RoutedText& one : all) sum += one.nearest.size();
  return static_cast<double>(text.nearest.size()) /
         static_cast<double>(std::max<std::size_t>(1, sum));
}

}  // namespace

Tensor gather_to_centroids(const Context& context, const Tensor& x, const Tensor& centroids,
                           std::shared_ptr<const std::vector<RoutedText>> texts) {
  refuse_device("gather_to_centroids", x, centroids);
  if (!wants_backward(context, centroids)) return x;
  Tensor same = x.reshaped(x.shape());
  record(context, "gather_to_centroids", same,
         [context, x, centroids, texts = std::move(texts)](Tensor gradient) {
           Tensor& sums = parameter_gradient(centroids);
           for (const RoutedText& text : *texts) {
             kernels::add_to_centroids({x, text.begin, text.nearest}, sums, context.threads);
           }
           send_gradient(context, x, std::move(gradient));
         });
  return same;
}

Tensor centroid_loss(const Context& context, const Tensor& x, const Tensor& centroids,
                     std::shared_ptr<const std::vector<RoutedText>> texts,
                     const CentroidLoss& loss) {
  double sum = 0;
  for (const RoutedText& text : *texts) {
    sum += share_of(text, *texts) *
           kernels::centroid_distance({x, text.begin, text.nearest}, centroids, loss.factor);
  }
  const std::vector<float> value = {loss.weight * static_cast<float>(sum)};
  Tensor result = Tensor::from(value, {1});
  if (!wants_backward(context, x)) return result;
  record(context, "centroid_loss", result,
         [context, x, centroids, texts = std::move(texts), loss](const Tensor& gradient) {
           const float slope = loss.weight * gradient.to_floats()[0];
           Tensor dx = context.memory.zeros(x.shape(), x.dtype());
           for (const RoutedText& text : *texts) {
             kernels::centroid_distance_backward(
                 {x, text.begin, text.nearest}, centroids, loss.factor,
                 slope * static_cast<float>(share_of(text, *texts)), dx, context.threads);
           }
           send_gradient(context, x, std::move(dx));
         });
  return result;
}

}  // namespace longformer::ops
