#include "ops/row_vectors.h"

#include <limits>
#include <memory>
#include <vector>

#include "kernels/gemm.h"
#include "ops/device.h"
#include "ops/gradients.h"
#include "ops/on_device.h"

namespace longformer::ops {

Tensor unit_rows(const Context& context, const Tensor& x) {
  if (x.is_on_device()) return on_device::unit_rows(x);
  Tensor y = context.memory.tensor(x.shape(), DType::f32);
  std::vector<float> lengths;
  kernels::unit_rows(x, y, lengths);
  if (!wants_backward(context, x)) return y;
  // A value of its own: what a step holds of its own result would keep it for ever.
  const Tensor unit = y;
  record(context, "unit_rows", y, [context, x, unit, kept = std::move(lengths)](Tensor gradient) {
    kernels::unit_rows_backward(unit, kept, gradient);
    send_gradient(context, x, std::move(gradient));
  });
  return y;
}

Tensor row_products(const Context& context, const Tensor& a, const Tensor& b, float scale,
                    std::span<const ExcludedPair> excluded) {
  refuse_device("row_products", a, b);
  const Index n = a.rows(), m = b.rows(), width = a.columns();
  Tensor products = context.memory.tensor({n, m}, DType::f32);
  kernels::gemm({.m = n, .n = m, .k = width, .transpose_b = true, .alpha = scale}, a.data<float>(),
                b.data<float>(), products.data<float>());
  for (const auto& [row, column] : excluded) {
    products.data<float>()[row * m + column] = -std::numeric_limits<float>::infinity();
  }
  if (!wants_backward(context, a, b)) return products;
  // The softmax behind it gives what is excluded no gradient.
  record(context, "row_products", products, [context, a, b, n, m, width, scale](Tensor gradient) {
    if (wants_gradient(a)) {
      Tensor da = context.memory.tensor(a.shape(), DType::f32);
      kernels::gemm({.m = n, .n = width, .k = m, .alpha = scale}, gradient.data<float>(),
                    b.data<float>(), da.data<float>());
      send_gradient(context, a, std::move(da));
    }
    if (!wants_gradient(b)) return;
    Tensor db = context.memory.tensor(b.shape(), DType::f32);
    kernels::gemm({.m = m, .n = width, .k = n, .transpose_a = true, .alpha = scale},
                  gradient.data<float>(), a.data<float>(), db.data<float>());
    send_gradient(context, b, std::move(db));
  });
  return products;
}

Tensor row_dots(const Context& context, const Tensor& a, const Tensor& b) {
  refuse_device("row_dots", a, b);
  Tensor dots = context.memory.tensor({a.rows(), 1}, DType::f32);
  kernels::row_dots(a, b, dots);
  if (!wants_backward(context, a, b)) return dots;
  record(context, "row_dots", dots, [context, a, b](const Tensor& gradient) {
    const auto send = [&](const Tensor& value, const Tensor& other) {
      if (!wants_gradient(value)) return;
      Tensor dx = context.memory.tensor(value.shape(), DType::f32);
      kernels::row_dots_backward(gradient, other, dx);
      send_gradient(context, value, std::move(dx));
    };
    send(a, b);
    send(b, a);
  });
  return dots;
}

LossSum triplet_loss(const Context& context, const Tensor& x, std::span<const Triplet> triplets,
                     double margin, const LossOptions& options) {
  Tensor gradient = context.memory.zeros(x.shape(), DType::f32);
  const LossSum loss = kernels::triplet_loss(x, triplets, margin, options, gradient);
  send_gradient(context, x, std::move(gradient));
  return loss;
}

}  // namespace longformer::ops
