#include "ops/attention.h"

#include <cassert>
#include <optional>
#include <utility>

#include "kernels/elementwise.h"
#include "ops/gradients.h"

namespace longformer::ops {
namespace {

/// Everything that the backward pass needs.
struct Forward {
  AttentionSpec spec;
  Tensor query, key, value, out, logsumexp;
  std::optional<RelativePositions> relative;
};

kernels::RelativePositions view_of(const RelativePositions& relative) {
  return {relative.content_bias, relative.position_bias, relative.keys};
}

void add_to_parameter(const Tensor& parameter, const Tensor& gradient) {
  if (!wants_gradient(parameter)) return;
  kernels::add(gradient.raw(), parameter_gradient(parameter).raw(), gradient.size(), DType::f32);
}

void attention_backward(const Context& context, const Forward& forward, const Tensor& gradient) {
  const auto like = [&](const Tensor& value) {
    return context.memory.tensor(value.shape(), value.dtype());
  };
  Tensor query = like(forward.query), key = like(forward.key), value = like(forward.value);
  kernels::AttentionBackwardArguments in = {.query = forward.query,
                                            .key = forward.key,
                                            .value = forward.value,
                                            .out = forward.out,
                                            .logsumexp = forward.logsumexp,
                                            .out_gradient = gradient,
                                            .query_gradient = query,
                                            .key_gradient = key,
                                            .value_gradient = value,
                                            .threads = context.threads};
  if (forward.relative) {
    Tensor content = like(forward.relative->content_bias);
    Tensor position = like(forward.relative->position_bias);
    Tensor keys = like(forward.relative->keys);
    const kernels::RelativePositions relative = view_of(*forward.relative);
    const kernels::RelativeGradients gradients = {content, position, keys};
    in.relative = &relative;
    in.relative_gradients = &gradients;
    kernels::attention_backward(forward.spec, in);
    add_to_parameter(forward.relative->content_bias, content);
    add_to_parameter(forward.relative->position_bias, position);
    send_gradient(context, forward.relative->keys, std::move(keys));
  } else {
    kernels::attention_backward(forward.spec, in);
  }
  send_gradient(context, forward.query, std::move(query));
  send_gradient(context, forward.key, std::move(key));
  send_gradient(context, forward.value, std::move(value));
}

}  // namespace

Tensor attention(const Context& context, const AttentionSpec& spec, const Tensor& query,
                 const Tensor& key, const Tensor& value, const RelativePositions* relative) {
  const Index heads = static_cast<Index>(spec.heads.size());
  const Index n = query.dimension(1);
  Tensor out = context.memory.tensor({n, heads * spec.head_size}, context.dtype);
  Tensor logsumexp;
  const bool trained = wants_backward(context, query, key, value) ||
                       (relative != nullptr && wants_backward(context, *relative));
  if (trained) logsumexp = context.memory.tensor({heads, n}, DType::f32);
  std::optional<kernels::RelativePositions> positions;
  if (relative != nullptr) positions.emplace(view_of(*relative));
  kernels::attention(kernels::AttentionBackend::fused, spec,
                     {.query = query,
                      .key = key,
                      .value = value,
                      .out = out,
                      .logsumexp = trained ? &logsumexp : nullptr,
                      .threads = context.threads,
                      .relative = positions ? &*positions : nullptr});
  if (!trained) return out;
  Forward forward = {spec, query, key, value, out, logsumexp, std::nullopt};
  if (relative != nullptr) forward.relative = *relative;
  record(context, "attention", out,
         [context, forward = std::move(forward)](const Tensor& gradient) {
           attention_backward(context, forward, gradient);
         });
  return out;
}

Tensor attention_to_kept(const Context& context, const Tensor& query,
                         std::span<const kernels::KeySource> sources) {
  assert(!wants_backward(context, query));
  Tensor out = context.memory.tensor({query.dimension(1), query.dimension(0) * query.dimension(2)},
                                     context.dtype);
  kernels::attend_few_queries(query, sources, out, context.threads);
  return out;
}

}  // namespace longformer::ops
