#include "ops/attention.h"

#include "ops/gradients.h"

namespace longformer::ops {

Tensor attention(const Context& context, const AttentionSpec& spec, const Tensor& query,
                 const Tensor& key, const Tensor& value) {
  const Index heads = static_cast<Index>(spec.heads.size());
  const Index n = query.dimension(1);
  Tensor out = context.memory.tensor({n, heads * spec.head_size}, context.dtype);
  Tensor logsumexp;
  if (context.tape != nullptr) logsumexp = context.memory.tensor({heads, n}, DType::f32);
  kernels::attention(kernels::AttentionBackend::fused, spec,
                     {.query = query,
                      .key = key,
                      .value = value,
                      .out = out,
                      .logsumexp = context.tape != nullptr ? &logsumexp : nullptr,
                      .threads = context.threads});
  if (context.tape == nullptr) return out;
  const Tensor result = out;
  record(context, out,
         [context, spec, query, key, value, result, logsumexp](const Tensor& gradient) {
           Tensor query_gradient = context.memory.tensor(query.shape(), query.dtype());
           Tensor key_gradient = context.memory.tensor(key.shape(), key.dtype());
           Tensor value_gradient = context.memory.tensor(value.shape(), value.dtype());
           kernels::attention_backward(spec, {.query = query,
                                              .key = key,
                                              .value = value,
                                              .out = result,
                                              .logsumexp = logsumexp,
                                              .out_gradient = gradient,
                                              .query_gradient = query_gradient,
                                              .key_gradient = key_gradient,
                                              .value_gradient = value_gradient,
                                              .threads = context.threads});
           send_gradient(context, query, query_gradient);
           send_gradient(context, key, key_gradient);
           send_gradient(context, value, value_gradient);
         });
  return out;
}

}  // namespace longformer::ops
