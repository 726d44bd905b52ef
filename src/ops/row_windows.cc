#include "ops/row_windows.h"

#include <cassert>

#include "ops/gradients.h"

namespace longformer::ops {

Tensor row_windows(const Context& context, const Tensor& x, Index count, kernels::RowWindow kind) {
  assert(!wants_backward(context, x));
  const Index width = kind == kernels::RowWindow::features ? x.columns() * count : x.columns();
  Tensor out = context.memory.tensor({x.rows() / count, width}, x.dtype());
  kernels::row_windows(x, count, kind, out);
  return out;
}

}  // namespace longformer::ops
