#include "ops/expansion.h"

#include <cassert>

#include "kernels/gemm.h"
#include "ops/device.h"
#include "ops/gradients.h"

namespace longformer::ops {

Tensor expand(const Context& context, const Tensor& x, const Tensor& weight) {
  refuse_device("expand", x, weight);
  assert(x.columns() == weight.rows());
  const Index n = x.rows(), in = weight.rows(), out = weight.columns();
  const Tensor wide = x.to(DType::f32);
  Tensor y = context.memory.tensor({n, out}, DType::f32);
  kernels::gemm({.m = n, .n = out, .k = in}, wide.data<float>(), weight.data<float>(),
                y.data<float>());
  if (!wants_backward(context, x, weight)) return y;
  record(context, "expand", y, [=](const Tensor& gradient) {
    const auto* g = gradient.data<float>();
    if (wants_gradient(weight)) {
      kernels::gemm({.m = in, .n = out, .k = n, .transpose_a = true, .beta = 1}, wide.data<float>(),
                    g, parameter_gradient(weight).data<float>());
    }
    if (!wants_gradient(x)) return;
    Tensor dx = context.memory.tensor(x.shape(), DType::f32);
    kernels::gemm({.m = n, .n = in, .k = out, .transpose_b = true}, g, weight.data<float>(),
                  dx.data<float>());
    send_gradient(context, x, dx.to(x.dtype()));
  });
  return y;
}

}  // namespace longformer::ops
