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

Tensor& parameter_gradient(const Tensor& parameter) {
  Gradient& gradient = *parameter.gradient();
  if (!gradient.sum.empty()) return gradient.sum;
  if (gradient.spare.empty()) {
    gradient.sum = Tensor::zeros(parameter.shape(), DType::f32);
  } else {
    gradient.sum = std::exchange(gradient.spare, Tensor());
    std::memset(gradient.sum.raw(), 0, gradient.sum.bytes());
  }
  return gradient.sum;
}

void record(const Context& context, Tensor& y, std::function<void(Tensor gradient)> backward) {
  if (context.tape == nullptr) return;
  Tape::track(y);
  context.tape->record([slot = y.gradient(), backward = std::move(backward)] {
    if (!slot->sum.empty()) backward(slot->take());
  });
}

}  // namespace longformer::ops
