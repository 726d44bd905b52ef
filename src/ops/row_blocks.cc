#include "ops/row_blocks.h"

#include <algorithm>

#include "kernels/elementwise.h"

namespace longformer::ops {

namespace {

/// Up to here the weights weigh more than the rows: threads that share the columns read each weight
/// once, threads that share the rows read it once each (base model, n = 64: 85 ms against 61 ms).
constexpr Index kFewRows = 128;

}  // namespace

Index RowPlan::largest() const {
  Index rows = 0;
  for (const RowBlock& block : blocks) rows = std::max(rows, block.rows);
  return rows;
}

RowPlan plan_rows(Index rows, int threads) {
  const auto round_up = [](Index value, Index unit) { return (value + unit - 1) / unit * unit; };
  RowPlan plan;
  plan.spread = threads > 1 && rows <= kFewRows;
  plan.workers = plan.spread ? 1 : threads;
  const Index unit = kernels::row_unit(plan.spread);
  const Index most = kernels::kRowBlock / unit * unit;
  const Index count = round_up((rows + most - 1) / most, plan.workers);
  const Index block = count == 0 ? 0 : round_up((rows + count - 1) / count, unit);
  for (Index begin = 0; begin < rows; begin += block) {
    const Index size = std::min(block, rows - begin);
    const Index whole = size / unit * unit;
    if (whole > 0) plan.blocks.push_back({begin, whole});
    if (size > whole) plan.blocks.push_back({begin + whole, size - whole});
  }
  return plan;
}

void add_to(const Context& context, const Tensor& x, Tensor& sum) {
  for_elements(context, sum, [&](Index, Index count, std::size_t at) {
    kernels::add(static_cast<const std::byte*>(x.raw()) + at,
                 static_cast<std::byte*>(sum.raw()) + at, count, sum.dtype());
  });
}

Tensor scratch(const Context& context, const RowPlan& plan, Index width, DType dtype) {
  return context.memory.tensor({plan.workers, plan.largest() * width}, dtype);
}

std::vector<const kernels::PackedLinear::Kernel*> kernels_of(const kernels::PackedLinear& dense,
                                                             const RowPlan& plan, DType output) {
  std::vector<const kernels::PackedLinear::Kernel*> kernels;
  for (const RowBlock& block : plan.blocks) {
    kernels.push_back(&dense.kernel(block.rows, output, plan.spread));
  }
  return kernels;
}

void* row_of(Tensor& matrix, Index row) {
  return static_cast<std::byte*>(matrix.raw()) +
         static_cast<std::size_t>(row * matrix.columns()) * element_size(matrix.dtype());
}
const void* row_of(const Tensor& matrix, Index row) {
  return row_of(const_cast<Tensor&>(matrix), row);
}

}  // namespace longformer::ops
