#include "ops/axial_positions.h"

#include <algorithm>
#include <vector>

#include "ops/device.h"
#include "ops/gradients.h"
#include "ops/row_blocks.h"

namespace longformer::ops {
namespace {

/// Adds the columns of each row from `begin` on to the row of the table that it came from.
void add_to_table(const Tensor& gradient, Index begin, std::span<const Index> rows,
                  const Tensor& table) {
  if (!wants_gradient(table)) return;
  float* sum = parameter_gradient(table).data<float>();
  const Index columns = table.columns();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const float* from = gradient.data<float>() + static_cast<Index>(i) * gradient.columns() + begin;
    float* to = sum + rows[i] * columns;
    for (Index c = 0; c < columns; ++c) to[c] += from[c];
  }
}

}  // namespace

Tensor axial_positions(const Context& context, const Tensor& first, const Tensor& second,
                       std::span<const Index> places) {
  refuse_device("axial_positions", first, second);
  const Index a = first.columns(), b = second.columns();
  std::vector<Index> of_first, of_second;
  for (const Index place : places) {
    of_first.push_back(place / second.rows());
    of_second.push_back(place % second.rows());
  }
  Tensor rows = context.memory.tensor({std::ssize(places), a + b}, DType::f32);
  for_row_blocks(context, rows.rows(), [&](Index begin, Index count) {
    for (Index i = begin; i < begin + count; ++i) {
      float* to = static_cast<float*>(row_of(rows, i));
      std::copy_n(first.data<float>() + of_first[at(i)] * a, a, to);
      std::copy_n(second.data<float>() + of_second[at(i)] * b, b, to + a);
    }
  });
  Tensor y = rows.to(context.dtype);
  if (!wants_backward(context, first, second)) return y;
  record(context, "axial_positions", y,
         [first, second, of_first, of_second](const Tensor& gradient) {
           const Tensor floats = gradient.to(DType::f32);
           add_to_table(floats, 0, of_first, first);
           add_to_table(floats, first.columns(), of_second, second);
         });
  return y;
}

}  // namespace longformer::ops
