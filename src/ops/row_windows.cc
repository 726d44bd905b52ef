#include "ops/row_windows.h"

#include <cassert>
#include <utility>

#include "ops/device.h"
#include "ops/gradients.h"

namespace longformer::ops {

Tensor row_windows(const Context& context, const Tensor& x, Index count, kernels::RowWindow kind) {
  refuse_device("row_windows", x);
  const Index width = kind == kernels::RowWindow::features ? x.columns() * count : x.columns();
  Tensor out = context.memory.tensor({x.rows() / count, width}, x.dtype());
  kernels::row_windows(x, count, kind, out);
  if (!wants_backward(context, x)) return out;
  assert(kind == kernels::RowWindow::features);
  record(context, "row_windows", out, [context, x, count](const Tensor& gradient) {
    Tensor dx = context.memory.tensor(x.shape(), x.dtype());
    kernels::row_windows_backward(gradient.to(x.dtype()), count, dx);
    send_gradient(context, x, std::move(dx));
  });
  return out;
}

}  // namespace longformer::ops
