#include "ops/sorted_chunks.h"

#include <cmath>
#include <utility>
#include <vector>

#include "ops/device.h"
#include "ops/gradients.h"

namespace longformer::ops {

Tensor chunk_attention(const Context& context, std::shared_ptr<const SortedChunks> spec,
                       const Tensor& query, const Tensor& key, const Tensor& value) {
  refuse_device("chunk_attention", query, key, value);
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

void chunk_probabilities(const Context& context, const AttentionSpec& dense,
                         const SortedChunks& spec, const ProbabilityInputs& in,
                         std::span<const Index> heads,
                         const std::function<void(const HeadProbabilities&)>& observe) {
  for (Index document = 0; document < std::ssize(spec.documents); ++document) {
    const Index n = spec.documents[at(document)].rows.key_count;
    for (const Index head : heads) {
      const std::vector<std::uint16_t> times = kernels::times_seen(spec, document, head);
      const auto term = [&times, n](Index query, Index key) {
        return std::log(static_cast<float>(times[at(query * n + key)]));
      };
      HeadProbabilities found{.which = {document, head}, .local = {}, .global = {}};
      found.local =
          context.memory.tensor({spec.documents[at(document)].rows.query_count, n}, DType::f32);
      kernels::attention_probabilities(
          dense, {.query = in.query, .key = in.key, .term = term}, found.which,
          {found.local.data<float>(), at(found.local.size())}, context.threads);
      observe(found);
    }
  }
}

}  // namespace longformer::ops
