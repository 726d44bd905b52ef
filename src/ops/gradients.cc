#include "ops/gradients.h"

#include <cassert>
#include <cstring>
#include <utility>

#include "kernels/elementwise.h"
#include "ops/row_blocks.h"

namespace longformer::ops {

void send_gradient(const Context& context, const Tensor& value, Tensor gradient) {
  if (!wants_gradient(value)) return;
  assert(gradient.size() == value.size());
  Tensor& sum = value.gradient()->sum;
  if (sum.empty()) {
    sum = std::move(gradient);
    return;
  }
  assert(gradient.dtype() == sum.dtype());
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

void record(const Context& context, Tensor& y, std::function<void(Tensor gradient)> backward) {
  if (context.tape == nullptr) return;
  Tape::track(y);
  context.tape->record([slot = y.gradient(), backward = std::move(backward)] {
    if (!slot->sum.empty()) backward(slot->take());
  });
}

}  // namespace longformer::ops
