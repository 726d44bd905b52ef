#include "ops/loss.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "ops/gradients.h"
#include "ops/on_device.h"
#include "ops/row_blocks.h"

namespace longformer::ops {
namespace {

/// Rows whose logits of a whole vocabulary are in memory at a time.
constexpr Index kDecoderRows = 256;

}  // namespace

LossSum cross_entropy(const Context& context, const Tensor& logits,
                      std::span<const std::int32_t> labels, const LossOptions& options) {
  Tensor gradient = context.memory.tensor(logits.shape(), DType::f32);
  std::memcpy(gradient.raw(), logits.raw(), logits.bytes());
  const LossSum loss = kernels::cross_entropy_rows(gradient, labels, options, context.threads);
  send_gradient(context, logits, std::move(gradient));
  return loss;
}

LossSum linear_cross_entropy(const Context& context, const Tensor& x, const Linear& decoder,
                             std::span<const std::int32_t> labels, const LossOptions& options) {
  const bool trained = wants_backward(context, x, decoder);
  refuse_packed(context, "linear_cross_entropy", decoder, x);
  LossOptions used = options;
  if (!trained) used.scale = 0;
  Tensor dx;
  if (trained && wants_gradient(x)) dx = context.memory.tensor(x.shape(), x.dtype());
  Context untaped = context;
  untaped.tape = nullptr;
  LossSum loss;
  for (Index begin = 0; begin < x.rows(); begin += kDecoderRows) {
    const Index rows = std::min(kDecoderRows, x.rows() - begin);
    Tensor block = x.slice_rows(begin, rows);
    Tensor logits = linear(untaped, block, decoder, DType::f32);
    const auto first = static_cast<std::size_t>(begin), count = static_cast<std::size_t>(rows);
    if (!options.each.empty()) used.each = options.each.subspan(first, count);
    const LossSum part =
        kernels::cross_entropy_rows(logits, labels.subspan(first, count), used, context.threads);
    loss.sum += part.sum;
    loss.weight += part.weight;
    if (!trained) continue;
    if (!dx.empty()) Tape::track(block);
    multiply_backward(context, block, decoder, logits);
    if (dx.empty()) continue;
    const Tensor gradient = block.gradient()->take();
    std::memcpy(row_of(dx, begin), gradient.raw(), gradient.bytes());
  }
  if (!dx.empty()) send_gradient(context, x, dx);
  return loss;
}

LossSum binary_cross_entropy(const Context& context, const Tensor& logits,
                             std::span<const float> targets, const LossOptions& options) {
  Tensor gradient = context.memory.tensor(logits.shape(), DType::f32);
  const LossSum loss = kernels::binary_cross_entropy(logits, targets, options, gradient);
  send_gradient(context, logits, std::move(gradient));
  return loss;
}

LossSum squared_error(const Context& context, const Tensor& logits, std::span<const float> targets,
                      const LossOptions& options) {
  Tensor gradient = context.memory.tensor(logits.shape(), DType::f32);
  const LossSum loss = kernels::squared_error(logits, targets, options, gradient);
  send_gradient(context, logits, std::move(gradient));
  return loss;
}

Tensor mean_square_difference(const Context& context, const Tensor& x, const Tensor& target) {
  Tensor mean = context.memory.tensor({1}, DType::f32);
  *mean.data<float>() = static_cast<float>(kernels::mean_square_difference(x, target));
  if (!wants_backward(context, x)) return mean;
  record(context, "mean_square_difference", mean, [context, x, target](const Tensor& gradient) {
    Tensor dx = context.memory.tensor(x.shape(), x.dtype());
    const float factor = *gradient.data<float>() * 2 / static_cast<float>(x.size());
    kernels::scaled_difference(x, target, factor, dx);
    send_gradient(context, x, std::move(dx));
  });
  return mean;
}

double number_of(const Tensor& value) {
  assert(value.size() == 1);
  return static_cast<double>(*value.data<float>());
}

Tensor lowered_rows(const Context& context, const Tensor& logits,
                    std::span<const kernels::RowRange> ranges, float amount) {
  if (logits.is_on_device()) return on_device::lowered_rows(logits, ranges, amount);
  Tensor lowered = context.memory.tensor(logits.shape(), DType::f32);
  std::memcpy(lowered.raw(), logits.raw(), logits.bytes());
  for (const kernels::RowRange& range : ranges) {
    float* begin = lowered.data<float>() + range.begin * logits.columns();
    const Index count = (range.end - range.begin) * logits.columns();
    std::for_each(begin, begin + count, [amount](float& value) { value -= amount; });
  }
  if (!wants_backward(context, logits)) return lowered;
  record(context, "lowered_rows", lowered,
         [context, logits](const Tensor& gradient) { send_gradient(context, logits, gradient); });
  return lowered;
}

LossSum row_cross_entropy(const Context& context, const Tensor& logits, Index column,
                          std::span<const RowChoice> choices, const LossOptions& options) {
  Tensor gradient = context.memory.zeros(logits.shape(), DType::f32);
  const LossSum loss = kernels::row_cross_entropy(logits, column, choices, options, gradient);
  send_gradient(context, logits, std::move(gradient));
  return loss;
}

}  // namespace longformer::ops
