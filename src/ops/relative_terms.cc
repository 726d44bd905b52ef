#include "ops/relative_terms.h"

#include <utility>

#include "ops/device.h"
#include "ops/gradients.h"

namespace longformer::ops {

Tensor table_heads(const Context& context, const Tensor& table, const Tensor& kernel) {
  refuse_device("table_heads", table, kernel);
  Tensor heads =
      context.memory.tensor({kernel.dimension(1), table.rows(), kernel.dimension(2)}, DType::f32);
  kernels::table_heads(table, kernel, heads, context.threads);
  Tensor y = heads.to(context.dtype);
  if (!wants_backward(context, kernel)) return y;
  record(context, "table_heads", y, [context, table, kernel](const Tensor& gradient) {
    kernels::table_heads_backward(table, gradient.to(DType::f32), parameter_gradient(kernel),
                                  context.threads);
  });
  return y;
}

Tensor kind_scores(const Context& context, const Tensor& query, const KindWeights& weights,
                   std::shared_ptr<const KindRelations> relations) {
  refuse_device("kind_scores", query);
  const auto& [bias, segments] = weights;
  Tensor scores =
      context.memory.tensor({query.dimension(0), query.dimension(1), relations->kinds}, DType::f32);
  kernels::kind_scores(query, {bias, segments, *relations}, scores, context.threads);
  if (!wants_backward(context, query, weights)) return scores;
  record(context, "kind_scores", scores,
         [context, query, weights, relations = std::move(relations)](const Tensor& gradient) {
           const auto sums_of = [&](const Tensor& parameter) {
             return wants_gradient(parameter) ? parameter_gradient(parameter)
                                              : context.memory.zeros(parameter.shape(), DType::f32);
           };
           Tensor dquery = context.memory.tensor(query.shape(), query.dtype());
           Tensor dbias = sums_of(weights.bias), dsegments = sums_of(weights.segments);
           kernels::kind_scores_backward(query, {weights.bias, weights.segments, *relations},
                                         gradient, {dquery, dbias, dsegments}, context.threads);
           send_gradient(context, query, std::move(dquery));
         });
  return scores;
}

}  // namespace longformer::ops
