#include "ops/sorted_chunks.h"

#include <utility>

#include "ops/gradients.h"

namespace longformer::ops {

Tensor chunk_attention(const Context& context, std::shared_ptr<const SortedChunks> spec,
                       const Tensor& query, const Tensor& key, const Tensor& value) {
  const Index heads = query.dimension(0), n = query.dimension(1);
  Tensor out = context.memory.tensor({n, heads * query.dimension(2)}, query.dtype());
  Tensor logsumexp = context.memory.tensor({heads, n}, DType::f32);
  kernels::sorted_chunks(*spec, {.query = query,
                                 .key = key,
                                 .value = value,
                                 .out = out,
                                 .logsumexp = logsumexp,
                                 .threads = context.threads});
  if (!wants_backward(context, query, key, value)) return out;
  const Tensor found = out;
  record(context, "chunk_attention", out,
         [context, spec = std::move(spec), query, key, value, found,
          logsumexp](const Tensor& gradient) {
           const auto like = [&](const Tensor& x) {
             return context.memory.tensor(x.shape(), x.dtype());
           };
           Tensor to_query = like(query), to_key = like(key), to_value = like(value);
           kernels::sorted_chunks_backward(*spec, {.query = query,
                                                   .key = key,
                                                   .value = value,
                                                   .out = found,
                                                   .logsumexp = logsumexp,
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
