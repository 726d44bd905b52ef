#include "ops/gradients.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "kernels/elementwise.h"
#include "ops/row_blocks.h"

namespace longformer::ops {

Tensor owned(const Context& context, Tensor gradient) {
  if (gradient.is_sole_owner()) return gradient;
  Tensor copy = context.memory.tensor(gradient.shape(), gradient.dtype());
  std::memcpy(copy.raw(), gradient.raw(), gradient.bytes());
  return copy;
}

void send_gradient(const Context& context, const Tensor& value, Tensor gradient) {
  if (!wants_gradient(value)) return;
  assert(gradient.size() == value.size());
  Tensor& sum = value.gradient()->sum;
  if (sum.empty()) {
    sum = std::move(gradient);
    return;
  }
  assert(gradient.dtype() == sum.dtype());
  sum = owned(context, std::move(sum));
  for_elements(context, sum, [&](Index, Index count, std::size_t at) {
    kernels::add(static_cast<const std::byte*>(gradient.raw()) + at,
                 static_cast<std::byte*>(sum.raw()) + at, count, sum.dtype());
  });
}

ParameterGradient parameter_gradient_to_write(const Tensor& parameter) {
  Gradient& gradient = *parameter.gradient();
  const bool fresh = gradient.sum.empty();
  if (fresh) gradient.sum = std::exchange(gradient.spare, Tensor());
  if (gradient.sum.empty()) gradient.sum = Tensor(parameter.shape(), DType::f32);
  return {gradient.sum, fresh};
}

Tensor& parameter_gradient(const Tensor& parameter) {
  const auto [sum, fresh] = parameter_gradient_to_write(parameter);
  if (fresh) std::memset(sum.raw(), 0, sum.bytes());
  return sum;
}

void record(const Context& context, std::string_view op, Tensor& y,
            std::function<void(Tensor gradient)> backward) {
  Tape::track(y);
  context.tape->record(op, [context, slot = y.gradient(), backward = std::move(backward)] {
    if (!slot->sum.empty()) backward(owned(context, slot->take()));
  });
}

void record(const Context& context, std::string_view op, std::span<Tensor> results,
            std::function<void(std::vector<Tensor> gradients)> backward) {
  std::vector<std::shared_ptr<Gradient>> slots;
  for (Tensor& result : results) {
    Tape::track(result);
    slots.push_back(result.gradient());
  }
  context.tape->record(op, [context, slots, backward = std::move(backward)] {
    std::vector<Tensor> gradients;
    for (const auto& slot : slots) gradients.push_back(slot->take());
    const bool used = std::any_of(gradients.begin(), gradients.end(),
                                  [](const Tensor& gradient) { return !gradient.empty(); });
    if (!used) return;
    for (Tensor& gradient : gradients) {
      if (!gradient.empty()) gradient = owned(context, std::move(gradient));
    }
    backward(std::move(gradients));
  });
}

}  // namespace longformer::ops
