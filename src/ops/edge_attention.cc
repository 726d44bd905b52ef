#include "ops/edge_attention.h"

#include <utility>

#include "kernels/elementwise.h"
#include "ops/attention.h"
#include "ops/device.h"
#include "ops/gradients.h"

namespace longformer::ops {
namespace {

kernels::EdgeLabels labels_of(const EdgeGroup& group) {
  return {.keys = group.label_keys ? &*group.label_keys : nullptr,
          .biases = group.label_biases ? &*group.label_biases : nullptr};
}

/// An empty tensor where nobody wants the gradient of the table.
Tensor table_gradient(const Context& context, const std::optional<Tensor>& table) {
  if (!table || !wants_gradient(*table)) return {};
  return context.memory.tensor(table->shape(), DType::f32);
}

/// Tables are fp32, parameters or not.
void add_to_table(const std::optional<Tensor>& table, const Tensor& gradient) {
  if (gradient.empty()) return;
  kernels::add(gradient.raw(), parameter_gradient(*table).raw(), gradient.size(), DType::f32);
}

}  // namespace

bool wants_gradient(const EdgeGroup& group) {
  return wants_gradient(group.key) || wants_gradient(group.value) ||
         (group.label_keys && wants_gradient(*group.label_keys)) ||
         (group.label_biases && wants_gradient(*group.label_biases));
}

Tensor edge_attention(const Context& context, const Tensor& query, const EdgeGroup& group) {
  return attention_over(context, query, {}, {&group, 1});
}

kernels::AttentionPart edge_part(const Context& context, const Tensor& query,
                                 const EdgeGroup& group) {
  refuse_device("edge_part", query);
  const Index heads = group.spec.heads, n = query.dimension(1);
  kernels::AttentionPart part = {
      context.memory.tensor({n, heads * group.spec.head_size}, query.dtype()),
      context.memory.tensor({heads, n}, DType::f32)};
  kernels::edge_attention(group.spec, {.query = query,
                                       .key = group.key,
                                       .value = group.value,
                                       .labels = labels_of(group),
                                       .out = part.out,
                                       .logsumexp = part.logsumexp,
                                       .threads = context.threads});
  return part;
}

void edge_part_backward(const Context& context, const SoftmaxResult& forward,
                        const EdgeGroup& group, const Tensor& gradient) {
  const auto like = [&](const Tensor& value) {
    return context.memory.tensor(value.shape(), value.dtype());
  };
  Tensor query = like(forward.query), key = like(group.key), value = like(group.value);
  Tensor label_keys = table_gradient(context, group.label_keys);
  Tensor label_biases = table_gradient(context, group.label_biases);
  kernels::edge_attention_backward(
      group.spec, {.query = forward.query,
                   .key = group.key,
                   .value = group.value,
                   .labels = labels_of(group),
                   .out = forward.out,
                   .logsumexp = forward.logsumexp,
                   .out_gradient = gradient,
                   .query_gradient = query,
                   .key_gradient = key,
                   .value_gradient = value,
                   .label_key_gradient = label_keys.empty() ? nullptr : &label_keys,
                   .label_bias_gradient = label_biases.empty() ? nullptr : &label_biases,
                   .threads = context.threads});
  add_to_table(group.label_keys, label_keys);
  add_to_table(group.label_biases, label_biases);
  send_gradient(context, forward.query, std::move(query));
  send_gradient(context, group.key, std::move(key));
  send_gradient(context, group.value, std::move(value));
}

}  // namespace longformer::ops
