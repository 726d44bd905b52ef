#include "ops/feature_attention.h"

#include <cassert>
#include <utility>

#include "ops/device.h"
#include "ops/gradients.h"

namespace longformer::ops {

Tensor feature_attention(const Context& context, const FeatureAttentionSpec& spec,
                         std::span<const Tensor> query_key_value, const Tensor& directions,
                         Tensor* sums) {
  refuse_device("feature_attention", query_key_value[0]);
  const Tensor &query = query_key_value[0], &key = query_key_value[1], &value = query_key_value[2];
  Tensor out = context.memory.tensor({query.dimension(1), query.dimension(0) * query.dimension(2)},
                                     context.dtype);
  kernels::feature_attention(spec, {.query = query,
                                    .key = key,
                                    .value = value,
                                    .directions = directions,
                                    .out = out,
                                    .threads = context.threads,
                                    .sums = sums});
  if (!wants_backward(context, query, key, value)) return out;
  assert(sums == nullptr);
  const Tensor found = out;
  record(context, "feature_attention", out,
         [context, spec, query, key, value, directions, found](const Tensor& gradient) {
           const auto like = [&](const Tensor& x) {
             return context.memory.tensor(x.shape(), x.dtype());
           };
           Tensor to_query = like(query), to_key = like(key), to_value = like(value);
           kernels::feature_attention_backward(spec, {.query = query,
                                                      .key = key,
                                                      .value = value,
                                                      .directions = directions,
                                                      .out = found,
                                                      .out_gradient = gradient,
                                                      .query_gradient = to_query,
                                                      .key_gradient = to_key,
                                                      .value_gradient = to_value,
                                                      .threads = context.threads});
           send_gradient(context, query, std::move(to_query));
           send_gradient(context, key, std::move(to_key));
           send_gradient(context, value, std::move(to_value));
         });
  return out;
}

}  // namespace longformer::ops
