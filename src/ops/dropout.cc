#include "ops/dropout.h"

#include <cstring>

#include "kernels/elementwise.h"
#include "ops/device.h"
#include "ops/gradients.h"
#include "ops/row_blocks.h"

namespace longformer::ops {

void drop_elements(const Context& context, const Dropout& dropout, Tensor& x) {
  if (!dropout.active()) return;
  for_elements(context, x, [&](Index first, Index count, std::size_t at) {
    kernels::drop(dropout, static_cast<std::uint64_t>(first), static_cast<std::byte*>(x.raw()) + at,
                  count, x.dtype());
  });
}

Tensor dropout_backward(const Context& context, const Dropout& dropout, const Tensor& gradient) {
  refuse_device("dropout_backward", gradient);
  if (!dropout.active()) return gradient;
  Tensor dropped = context.memory.tensor(gradient.shape(), gradient.dtype());
  for_elements(context, dropped, [&](Index first, Index count, std::size_t at) {
    auto* to = static_cast<std::byte*>(dropped.raw()) + at;
    std::memcpy(to, static_cast<const std::byte*>(gradient.raw()) + at,
                static_cast<std::size_t>(count) * element_size(dropped.dtype()));
    kernels::drop(dropout, static_cast<std::uint64_t>(first), to, count, dropped.dtype());
  });
  return dropped;
}

Tensor dropout(const Context& context, const Tensor& x, const Dropout& dropout) {
  if (!dropout.active()) return x;
  Tensor y = dropout_backward(context, dropout, x);
  if (!wants_backward(context, x)) return y;
  record(context, "dropout", y, [context, x, dropout](Tensor gradient) {
    drop_elements(context, dropout, gradient);
    send_gradient(context, x, std::move(gradient));
  });
  return y;
}

}  // namespace longformer::ops
