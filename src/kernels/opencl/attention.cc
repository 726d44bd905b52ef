#include "kernels/opencl/attention.h"

#include "kernels/opencl/attention_buffers.h"
#include "kernels/opencl/attention_text.h"

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

void attention_opencl(const AttentionSpec& spec, const AttentionArguments& in) {
  Device& device = Device::get();
  const std::scoped_lock turn(device.turn);
  const opencl::Tiles tiles = opencl::tiles_for(device.facts(), spec.head_size, kForwardRows);
  const AttentionInputs inputs = {in.query,     in.key,      in.value,         in.out,
                                  in.logsumexp, in.relative, in.distance_bias, nullptr};
  const AttentionPlan plan(spec, inputs, tiles);
  if (plan.sizes.queries == 0) return;
  check_memory(device, {&in.query, &in.key, &in.value, &in.out, in.logsumexp});
  opencl::Program& program =
      device.program(opencl::kAttentionSource, tiles.options(spec.relative_positions, false));
  const DeviceInputs from(device, plan, inputs);
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

}  // namespace longformer::kernels
