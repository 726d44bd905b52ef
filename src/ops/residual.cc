#include "ops/residual.h"

#include <cstring>
#include <utility>

#include "kernels/elementwise.h"
#include "ops/dropout.h"
#include "ops/gradients.h"
#include "ops/on_device.h"
#include "ops/row_blocks.h"

namespace longformer::ops {

Tensor linear_add(const Context& context, const Tensor& x, const Linear& dense,
                  const Tensor& residual, const Dropout& dropout) {
  if (x.is_on_device()) return on_device::linear_add(x, dense, residual);
  refuse_packed(context, "linear_add", dense, x);
  Context inner = context;
  inner.tape = nullptr;
  Tensor y = linear(inner, x, dense, context.dtype);
  drop_elements(context, dropout, y);
  add_to(context, residual, y);
  if (!wants_backward(context, x, dense, residual)) return y;
  record(context, "linear_add", y, [context, x, &dense, residual, dropout](Tensor gradient) {
    multiply_backward(context, x, dense, dropout_backward(context, dropout, gradient));
    send_gradient(context, residual, std::move(gradient));
  });
  return y;
}

Tensor add(const Context& context, const Tensor& x, const Tensor& residual) {
  if (x.is_on_device()) return on_device::add(x, residual);
  Tensor y = context.memory.tensor(x.shape(), x.dtype());
  for_elements(context, y, [&](Index, Index count, std::size_t at) {
    std::byte* to = static_cast<std::byte*>(y.raw()) + at;
    std::memcpy(to, static_cast<const std::byte*>(x.raw()) + at,
                static_cast<std::size_t>(count) * element_size(y.dtype()));
    kernels::add(static_cast<const std::byte*>(residual.raw()) + at, to, count, y.dtype());
  });
  if (!wants_backward(context, x, residual)) return y;
  record(context, "add", y, [context, x, residual](const Tensor& gradient) {
    send_gradient(context, x, gradient);
    send_gradient(context, residual, gradient);
  });
  return y;
}

}  // namespace longformer::ops
