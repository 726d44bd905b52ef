#include "ops/attention.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "kernels/attention/merge.h"
#include "kernels/elementwise.h"
#include "ops/gradients.h"
#include "ops/on_device.h"

namespace longformer::ops {
namespace {

/// Everything that the backward pass needs: what was found over all groups together is what the
/// probabilities and their means in each group follow from.
struct Forward : SoftmaxResult {
  std::vector<KeyGroup> groups;
  std::vector<EdgeGroup> edges;
};

void add_to_parameter(const Tensor& parameter, const Tensor& gradient) {
  if (!wants_gradient(parameter)) return;
  kernels::add(gradient.raw(), parameter_gradient(parameter).raw(), gradient.size(), DType::f32);
}

void group_backward(const Context& context, const Forward& forward, const KeyGroup& group,
                    const Tensor& gradient) {
  const auto like = [&](const Tensor& value) {
    return context.memory.tensor(value.shape(), value.dtype());
  };
  Tensor query = like(forward.query), key = like(group.key), value = like(group.value);
  kernels::AttentionBackwardArguments in = {.query = forward.query,
                                            .key = group.key,
                                            .value = group.value,
                                            .out = forward.out,
                                            .logsumexp = forward.logsumexp,
                                            .out_gradient = gradient,
                                            .query_gradient = query,
                                            .key_gradient = key,
                                            .value_gradient = value,
                                            .threads = context.threads};
  std::optional<Tensor> bias;
  if (group.distance_bias) in.distance_bias = &*group.distance_bias;
  if (group.distance_bias && wants_gradient(*group.distance_bias)) {
    bias = like(*group.distance_bias);
    in.distance_bias_gradient = &*bias;
  }
  std::optional<kernels::DistanceKeys> distances;
  std::optional<Tensor> distance_keys, distance_queries;
  if (group.distance_keys) {
    distances = view_of(*group.distance_keys);
    in.distance_keys = &*distances;
    if (distances->keys != nullptr) {
      in.distance_key_gradients.keys = &distance_keys.emplace(like(*distances->keys));
    }
    if (distances->queries != nullptr) {
      in.distance_key_gradients.queries = &distance_queries.emplace(like(*distances->queries));
    }
  }
  if (group.relative) {
    Tensor content = like(group.relative->content_bias);
    Tensor position = like(group.relative->position_bias);
    Tensor keys = like(group.relative->keys);
    const kernels::RelativePositions relative = view_of(*group.relative);
    std::optional<Tensor> kinds;
    if (relative.kind_scores != nullptr) kinds = like(*relative.kind_scores);
    const kernels::RelativeGradients gradients = {content, position, keys,
                                                  kinds ? &*kinds : nullptr};
    in.relative = &relative;
    in.relative_gradients = &gradients;
    kernels::attention_backward(group.spec, in);
    add_to_parameter(group.relative->content_bias, content);
    add_to_parameter(group.relative->position_bias, position);
    send_gradient(context, group.relative->keys, std::move(keys));
    if (kinds) send_gradient(context, *group.relative->kind_scores, std::move(*kinds));
  } else {
    kernels::attention_backward(group.spec, in);
  }
  if (bias) send_gradient(context, *group.distance_bias, std::move(*bias));
  if (distance_keys) {
    send_gradient(context, *group.distance_keys->keys, std::move(*distance_keys));
  }
  if (distance_queries) {
    send_gradient(context, *group.distance_keys->queries, std::move(*distance_queries));
  }
  send_gradient(context, forward.query, std::move(query));
  send_gradient(context, group.key, std::move(key));
  send_gradient(context, group.value, std::move(value));
}

kernels::AttentionPart attend(const Context& context, const Tensor& query, const KeyGroup& group,
                              bool wants_logsumexp) {
  const Index n = query.dimension(1);
  const auto heads = std::ssize(group.spec.heads);
  kernels::AttentionPart part;
  part.out = context.memory.tensor({n, heads * group.spec.head_size}, context.dtype);
  if (wants_logsumexp) part.logsumexp = context.memory.tensor({heads, n}, DType::f32);
  std::optional<kernels::RelativePositions> positions;
  if (group.relative) positions.emplace(view_of(*group.relative));
  std::optional<kernels::DistanceKeys> distances;
  if (group.distance_keys) distances = view_of(*group.distance_keys);
  kernels::attention(kernels::AttentionBackend::fused, group.spec,
                     {.query = query,
                      .key = group.key,
                      .value = group.value,
                      .out = part.out,
                      .logsumexp = wants_logsumexp ? &part.logsumexp : nullptr,
                      .threads = context.threads,
                      .relative = positions ? &*positions : nullptr,
                      .distance_bias = group.distance_bias ? &*group.distance_bias : nullptr,
                      .distance_keys = distances ? &*distances : nullptr});
  return part;
}

bool wants_gradients(const DistanceKeys& distances) {
  return (distances.keys && wants_gradient(*distances.keys)) ||
         (distances.queries && wants_gradient(*distances.queries));
}

bool is_trained(const KeyGroup& group) {
  return wants_gradient(group.key) || wants_gradient(group.value) ||
         (group.relative && wants_gradient(*group.relative)) ||
         (group.distance_bias && wants_gradient(*group.distance_bias)) ||
         (group.distance_keys && wants_gradients(*group.distance_keys));
}

/// The results of all groups as those of one softmax.
kernels::AttentionPart merged(const Context& context, std::vector<kernels::AttentionPart> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  const kernels::AttentionPart& like = parts[0];
  kernels::AttentionPart all = {
      context.memory.tensor(like.out.shape(), like.out.dtype()),
      context.memory.tensor(like.logsumexp.shape(), like.logsumexp.dtype())};
  kernels::merge_attention(parts, all.out, all.logsumexp, context.threads);
  return all;
}

}  // namespace

kernels::RelativePositions view_of(const RelativePositions& relative) {
  return {relative.content_bias, relative.position_bias, relative.keys,
          relative.kind_scores ? &*relative.kind_scores : nullptr};
}

kernels::DistanceKeys view_of(const DistanceKeys& distances) {
  return {.keys = distances.keys ? &*distances.keys : nullptr,
          .queries = distances.queries ? &*distances.queries : nullptr,
          .rows = *distances.rows};
}

Tensor attention(const Context& context, const AttentionSpec& spec, const Tensor& query,
                 const Tensor& key, const Tensor& value, const RelativePositions* relative) {
  KeyGroup group = {spec, key, value};
  if (relative != nullptr) group.relative = *relative;
  return attention_over(context, query, {&group, 1});
}

Tensor attention_over(const Context& context, const Tensor& query, std::span<const KeyGroup> groups,
                      std::span<const EdgeGroup> edges) {
  if (query.is_on_device()) return on_device::attention_over(query, groups, edges);
  const bool trained =
      context.tape != nullptr &&
      (wants_gradient(query) || std::any_of(groups.begin(), groups.end(), is_trained) ||
       std::any_of(edges.begin(), edges.end(),
                   [](const EdgeGroup& group) { return wants_gradient(group); }));
  const bool merges = groups.size() + edges.size() > 1;
  std::vector<kernels::AttentionPart> parts;
  for (const KeyGroup& group : groups) {
    parts.push_back(attend(context, query, group, trained || merges));
  }
  for (const EdgeGroup& group : edges) parts.push_back(edge_part(context, query, group));
  kernels::AttentionPart all = merged(context, std::move(parts));
  Tensor out = all.out;
  if (!trained) return out;
  record(context, "attention", out,
         [context,
          forward = Forward{{query, all.out, all.logsumexp},
                            std::vector(groups.begin(), groups.end()),
                            std::vector(edges.begin(), edges.end())}](const Tensor& gradient) {
           for (const KeyGroup& group : forward.groups) {
             group_backward(context, forward, group, gradient);
           }
           for (const EdgeGroup& group : forward.edges) {
             edge_part_backward(context, forward, group, gradient);
           }
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
