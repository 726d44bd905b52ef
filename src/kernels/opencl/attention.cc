#include "kernels/opencl/attention.h"

#include "core/error.h"
#include "kernels/opencl/attention_buffers.h"
#include "kernels/opencl/kernel_texts.h"
#include "kernels/opencl/pass_data.h"
#include "kernels/opencl/pool.h"

namespace longformer::kernels {
namespace {

using opencl::AttentionPlan;
using opencl::Buffer;
using opencl::Device;
using opencl::DeviceInputs;

/// Tiles of rows in local memory at once: keys and values.
constexpr Index kForwardRows = 2;

}  // namespace

std::optional<std::string> why_not_opencl(const AttentionSpec& spec) {
  if (spec.dropout.active()) return "dropout of probabilities is left to the fused backend";
  if (spec.distance_keys) return "keys of distances are left to the fused backend";
  if (spec.relative_positions && spec.rows->places) {
    return "relative positions of rows with places are left to the fused backend";
  }
  return std::nullopt;
}

void attention_opencl(const AttentionSpec& spec, const AttentionArguments& in, bool narrow) {
  Device& device = Device::get();
  const std::scoped_lock turn(device.turn);
  const opencl::Tiles tiles = opencl::tiles_for(device.facts(), spec.head_size, kForwardRows);
  const AttentionInputs inputs = {in.query,     in.key,      in.value,         in.out,
                                  in.logsumexp, in.relative, in.distance_bias, nullptr};
  const AttentionPlan plan(spec, inputs, tiles);
  if (plan.sizes.queries == 0) return;
  const opencl::StoredHeads stored(inputs, narrow);
  check_memory(device, {&stored.query, &stored.key, &stored.value, &in.out, in.logsumexp});
  opencl::Program& program =
      device.program(opencl::kAttentionSource,
                     tiles.options({.relative = spec.relative_positions, .half = stored.half}));
  const DeviceInputs from(device, plan, inputs, stored);
  const std::vector<opencl::Task> tasks = plan.query_tasks();
  const Buffer groups = opencl::buffer_of(device, tasks);
  Buffer out = opencl::result_of(device, in.out);
  const std::size_t sums = static_cast<std::size_t>(plan.sizes.heads * in.query.dimension(1)) * 4;
  Buffer logsumexp =
      Buffer::result(device, in.logsumexp != nullptr ? in.logsumexp->data<float>() : nullptr, sums);
  run(device, program, "attend", {tasks.size(), static_cast<std::size_t>(tiles.lanes)}, groups,
      plan.sizes, from.heads, from.rows, from.listed, from.kinds, from.global_keys, from.query,
      from.key, from.value, from.biases, from.relative, from.content_bias, from.position_bias, out,
      logsumexp);
  out.read();
  logsumexp.read();
}

namespace opencl {
namespace {

/// A plan in the memory of the device.
struct DevicePlan {
  Sizes sizes;
  std::size_t groups = 0;
  Tensor tasks, heads, rows, listed, kinds, global_keys;
};

DevicePlan device_plan(Device& device, const AttentionSpec& spec, const DeviceHeads& in,
                       const Tiles& tiles) {
  check(spec);
  const Tensor* bias = in.distance_bias.empty() ? nullptr : &in.distance_bias;
  const AttentionPlan plan(spec, {in.query, in.key, in.value, in.query, nullptr, nullptr, bias},
                           tiles);
  const std::vector<Task> tasks = plan.query_tasks();
  MemoryPool& pool = device.pool();
  return {.sizes = plan.sizes,
          .groups = tasks.size(),
          .tasks = pool.uploaded(tasks),
          .heads = pool.uploaded(plan.heads),
          .rows = pool.uploaded(plan.rows),
          .listed = pool.uploaded(plan.listed),
          .kinds = pool.uploaded(plan.kinds.data(), {std::ssize(plan.kinds)}, DType::u8),
          .global_keys = pool.uploaded(plan.global_keys)};
}

/// All that the plan follows from beside the rows.
std::string key_of(const AttentionSpec& spec, const DeviceHeads& in) {
  std::string key = fmt::format("plan {} {} {} {} {} {} {} {}:", fmt::ptr(spec.rows.get()),
                                spec.head_size, spec.causal, static_cast<int>(spec.global_queries),
                                spec.log_weight, in.query.dimension(1), in.key.dimension(1),
                                in.distance_bias.empty() ? 0 : in.distance_bias.dimension(1));
  for (const HeadPattern& head : spec.heads) {
    key +=
        fmt::format(" {},{},{},{}", head.reach_left, head.reach_right, head.dilation, head.block);
  }
  return key;
}

}  // namespace

SoftmaxPart attend(const AttentionSpec& spec, const DeviceHeads& in) {
  Device& device = device_of(in.query);
  const auto reason = why_not_opencl(spec);
  require(!reason && !spec.relative_positions && !spec.rows->division, "attention on a device: {}",
          reason.value_or("relative positions are left to the CPU"));
  const Tiles tiles = tiles_for(device.facts(), spec.head_size, kForwardRows);
  const auto plan = device.pass_data().get<DevicePlan>(
      spec.rows, key_of(spec, in), [&] { return device_plan(device, spec, in, tiles); });
  Program& program = device.program(kAttentionSource, tiles.options({}));
  const auto heads = std::ssize(spec.heads);
  const Index n = in.query.dimension(1);
  SoftmaxPart part = {device.pool().tensor({n, heads * spec.head_size}),
                      device.pool().tensor({heads, n})};
  // Stands for tensors that are not there, and is not read.
  const Tensor& none = in.query;
  run(device, program, "attend", {plan->groups, static_cast<std::size_t>(tiles.lanes)}, plan->tasks,
      plan->sizes, plan->heads, plan->rows, plan->listed, plan->kinds, plan->global_keys, in.query,
      in.key, in.value, in.distance_bias.empty() ? none : in.distance_bias, none, none, none,
      part.out, part.logsumexp);
  return part;
}

}  // namespace opencl
}  // namespace longformer::kernels
