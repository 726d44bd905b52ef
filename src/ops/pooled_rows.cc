#include "ops/pooled_rows.h"

#include <utility>

#include "ops/device.h"
#include "ops/gradients.h"
#include "ops/row_blocks.h"

namespace longformer::ops {

Tensor pool_rows(const Context& context, const Tensor& x,
                 std::shared_ptr<const std::vector<kernels::RowRange>> ranges, RowPooling pooling) {
  refuse_device("pool_rows", x);
  const auto count = static_cast<Index>(ranges->size());
  Tensor pooled = context.memory.tensor({count, x.columns()}, x.dtype());
  for_row_blocks(context, count, [&](Index first, Index rows) {
    kernels::pool_rows(x, *ranges, pooling, {first, first + rows}, pooled);
  });
  if (!wants_backward(context, x)) return pooled;
  record(context, "pool_rows", pooled,
         [context, x, ranges = std::move(ranges), pooling](const Tensor& gradient) {
           Tensor dx = context.memory.zeros(x.shape(), x.dtype());
           kernels::pool_rows_backward(x, *ranges, pooling, gradient, dx);
           send_gradient(context, x, std::move(dx));
         });
  return pooled;
}

}  // namespace longformer::ops
