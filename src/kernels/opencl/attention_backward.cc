#include <algorithm>

#include "kernels/opencl/attention.h"
#include "kernels/opencl/attention_buffers.h"
#include "kernels/opencl/kernel_texts.h"

namespace longformer::kernels {
namespace {

using opencl::AttentionPlan;
using opencl::Buffer;
using opencl::Device;
using opencl::DeviceInputs;
using opencl::Groups;
using opencl::Program;
using opencl::Task;

/// Tiles of rows in local memory at once: queries and gradients, as rows and as columns.
constexpr Index kBackwardRows = 4;

/// A backward pass on the device, and what all its kernels read.
struct Pass {
  Device& device;
  Program& program;
  const AttentionPlan& plan;
  const DeviceInputs& from;
  const Buffer &logsumexp, &deltas, &out_gradient;

  Groups groups(std::size_t count) const { return {count, at(plan.tiles.lanes)}; }
};

void send_to_queries(const Pass& pass, Tensor& gradient) {
  const std::vector<Task> tasks = pass.plan.query_tasks();
  const Buffer groups = buffer_of(pass.device, tasks);
  Buffer to = result_of(pass.device, gradient);
  const DeviceInputs& from = pass.from;
  run(pass.device, pass.program, "send_to_queries", pass.groups(tasks.size()), groups,
      pass.plan.sizes, from.heads, from.rows, from.listed, from.kinds, from.global_keys, from.query,
      from.key, from.value, from.biases, from.relative, from.content_bias, from.position_bias,
      pass.logsumexp, pass.deltas, pass.out_gradient, to);
  to.read();
}

/// Gives for each head and key the sum of the gradients of its scores.
std::vector<float> send_to_keys(const Pass& pass, Tensor& key_gradient, Tensor& value_gradient) {
  // Keys that no group has are masked, or in no document.
  for (Tensor* gradient : {&key_gradient, &value_gradient}) {
    if (!gradient->empty()) std::fill_n(gradient->data<float>(), gradient->size(), 0.0f);
  }
  std::vector<float> sums(at(Index{pass.plan.sizes.heads} * pass.plan.sizes.keys));
  Buffer keys =
      Buffer::filled(pass.device, key_gradient.empty() ? nullptr : key_gradient.data<float>(),
                     at(key_gradient.size()) * sizeof(float));
  Buffer values =
      Buffer::filled(pass.device, value_gradient.empty() ? nullptr : value_gradient.data<float>(),
                     at(value_gradient.size()) * sizeof(float));
  Buffer key_sums = Buffer::filled(pass.device, sums.data(), sums.size() * sizeof(float));
  const DeviceInputs& from = pass.from;
  for (const std::vector<Task>& tasks : pass.plan.key_tasks()) {
    const Buffer groups = buffer_of(pass.device, tasks);
    run(pass.device, pass.program, "send_to_keys", pass.groups(tasks.size()), groups,
        pass.plan.sizes, from.heads, from.rows, from.listed, from.kinds, from.global_keys,
        from.query, from.key, from.value, from.biases, from.relative, from.content_bias,
        from.position_bias, pass.logsumexp, pass.deltas, pass.out_gradient, keys, values, key_sums);
    keys.read();
  }
  values.read();
  key_sums.read();
  return sums;
}

/// Gives the sums of the tasks of steps, one after the other.
std::vector<float> send_to_steps(const Pass& pass, const std::vector<Task>& tasks,
                                 Tensor* relative_gradient) {
  const std::vector<Task> documents = pass.plan.documents();
  std::vector<float> sums(tasks.empty() ? 0 : at(tasks.back().list_from + tasks.back().count));
  const Buffer groups = buffer_of(pass.device, tasks);
  const Buffer of_documents = buffer_of(pass.device, documents);
  Buffer step_sums = Buffer::result(pass.device, sums.data(), sums.size() * sizeof(float));
  Tensor none;
  Buffer relative =
      result_of(pass.device, relative_gradient != nullptr ? *relative_gradient : none);
  const DeviceInputs& from = pass.from;
  run(pass.device, pass.program, "send_to_steps", pass.groups(tasks.size()), groups,
      pass.plan.sizes, from.heads, from.rows, of_documents, from.kinds, from.query, from.key,
      from.value, from.biases, from.relative, from.content_bias, from.position_bias, pass.logsumexp,
      pass.deltas, pass.out_gradient, step_sums, relative);
  relative.read();
  step_sums.read();
  return sums;
}

/// to [d] = factor · Σ weight of row · row, for rows [count, d] of a head.
void weigh_rows(const float* weights, const float* rows, Index count, float factor,
                std::span<float> to) {
  std::vector<double> sums(to.size());
  for (Index row = 0; row < count; ++row) {
    // Masked rows hold anything, and have the weight 0.
    if (weights[row] == 0) continue;
    const float* from = rows + row * std::ssize(to);
    for (std::size_t c = 0; c < to.size(); ++c) sums[c] += double{weights[row]} * double{from[c]};
  }
  std::transform(sums.begin(), sums.end(), to.begin(),
                 [factor](double sum) { return static_cast<float>(factor * sum); });
}

void send_to_positions(const Pass& pass, const AttentionBackwardArguments& in,
                       const std::vector<float>& key_sums) {
  const opencl::Sizes& sizes = pass.plan.sizes;
  const RelativeGradients& to = *in.relative_gradients;
  const std::vector<float> step_sums = send_to_steps(pass, pass.plan.step_tasks(), &to.keys);
  const Index d = sizes.head_size;
  for (Index head = 0; head < sizes.heads; ++head) {
    const auto row_of = [&](Tensor& tensor) {
      return std::span(tensor.data<float>() + head * d, at(d));
    };
    weigh_rows(step_sums.data() + head * sizes.distances,
               in.relative->keys.data<float>() + head * sizes.distances * d, sizes.distances,
               sizes.scale, row_of(to.position_bias));
    weigh_rows(key_sums.data() + head * sizes.keys, in.key.data<float>() + head * sizes.keys * d,
               sizes.keys, sizes.scale, row_of(to.content_bias));
  }
}

void send_to_biases(const Pass& pass, Tensor& gradient) {
  const std::vector<Task> tasks = pass.plan.step_tasks();
  const std::vector<float> sums = send_to_steps(pass, tasks, nullptr);
  const Index columns = gradient.dimension(1), reach = columns / 2;
  std::vector<double> wide(at(gradient.size()));
  for (const Task& task : tasks) {
    for (Index lane = 0; lane < task.count; ++lane) {
      const Index behind = -(task.first + lane) * pass.plan.spec.heads[at(task.head)].dilation;
      wide[at(task.head * columns + reach + std::clamp(behind, -reach, reach))] +=
          double{sums[at(task.list_from + lane)]};
    }
  }
  std::transform(wide.begin(), wide.end(), gradient.data<float>(),
                 [](double sum) { return static_cast<float>(sum); });
}

}  // namespace

void attention_backward_opencl(const AttentionSpec& spec, const AttentionBackwardArguments& in,
                               bool narrow) {
  Device& device = Device::get();
  const std::scoped_lock turn(device.turn);
  const opencl::Tiles tiles = opencl::tiles_for(device.facts(), spec.head_size, kBackwardRows);
  const AttentionInputs inputs = {in.query,      in.key,      in.value,         in.out,
                                  &in.logsumexp, in.relative, in.distance_bias, nullptr};
  const AttentionPlan plan(spec, inputs, tiles);
  const opencl::StoredHeads stored(inputs, narrow);
  check_memory(device,
               {&stored.query, &stored.key, &stored.value, &in.out, &in.logsumexp, &in.out_gradient,
                &in.query_gradient, &in.key_gradient, &in.value_gradient, &in.logsumexp});
  Program& program = device.program(
      opencl::kAttentionSource,
      tiles.options({.relative = spec.relative_positions, .backward = true, .half = stored.half}));
  const DeviceInputs from(device, plan, inputs, stored);
  const Buffer out = buffer_of(device, in.out);
  const Buffer out_gradient = buffer_of(device, in.out_gradient);
  const Buffer logsumexp = buffer_of(device, in.logsumexp);
  const Buffer deltas(device, nullptr, at(in.logsumexp.size()) * sizeof(float));
  const Pass pass = {device, program, plan, from, logsumexp, deltas, out_gradient};
  const auto groups = static_cast<std::size_t>(divide_up(in.logsumexp.size(), tiles.lanes));
  run(device, program, "sum_outputs", pass.groups(groups), plan.sizes, out, out_gradient, deltas);
  if (plan.sizes.queries > 0) send_to_queries(pass, in.query_gradient);
  const std::vector<float> key_sums = send_to_keys(pass, in.key_gradient, in.value_gradient);
  if (spec.relative_positions) send_to_positions(pass, in, key_sums);
  if (in.distance_bias_gradient != nullptr) send_to_biases(pass, *in.distance_bias_gradient);
}

}  // namespace longformer::kernels
