#include "ops/positions.h"

#include <utility>
#include <vector>

#include "kernels/head_rows.h"
#include "kernels/sinusoids.h"
#include "kernels/table_rows.h"
#include "ops/device.h"
#include "ops/gradients.h"
#include "ops/row_blocks.h"

namespace longformer::ops {

Tensor sinusoids(const Context& context, Index count, Index width, Index begin, Index step) {
  Tensor table = context.memory.tensor({count, width}, DType::f32);
  for_row_blocks(context, count, [&](Index first, Index rows) {
    kernels::fill_sinusoids(table, first, rows, begin, step);
  });
  return table.to(context.dtype);
}

Tensor add_table_rows(const Context& context, const Tensor& x, const Tensor& table,
                      std::span<const Index> rows) {
  refuse_device("add_table_rows", x, table);
  Tensor sum = context.memory.tensor(x.shape(), x.dtype());
  kernels::add_table_rows(x, table, rows, sum, context.threads);
  if (!wants_backward(context, x, table)) return sum;
  record(context, "add_table_rows", sum,
         [context, x, table, kept = std::vector(rows.begin(), rows.end())](Tensor gradient) {
           if (wants_gradient(table)) {
             Tensor sums = context.memory.zeros(table.shape(), DType::f32);
             kernels::add_table_rows_backward(gradient, kept, sums, context.threads);
             send_gradient(context, table, sums.to(table.dtype()));
           }
           send_gradient(context, x, std::move(gradient));
         });
  return sum;
}

Tensor head_sections(const Context& context, const Tensor& x, Index m,
                     std::span<const Index> sections) {
  refuse_device("head_sections", x);
  Tensor chosen = context.memory.tensor({x.dimension(0), m, x.dimension(2)}, x.dtype());
  kernels::take_sections(x, sections, chosen);
  if (!wants_backward(context, x)) return chosen;
  record(
      context, "head_sections", chosen,
      [context, x, kept = std::vector(sections.begin(), sections.end())](const Tensor& gradient) {
        Tensor dx = context.memory.zeros(x.shape(), x.dtype());
        kernels::put_sections(gradient, kept, dx);
        send_gradient(context, x, std::move(dx));
      });
  return chosen;
}

}  // namespace longformer::ops
