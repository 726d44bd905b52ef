#include "ops/linear.h"

#include <algorithm>
#include <cstring>

#include "core/threads.h"
#include "kernels/normalization.h"
#include "ops/row_blocks.h"

namespace longformer::ops {
namespace {

/// Start of row `row` of a row-major matrix.
void* row_of(Tensor& matrix, Index row) {
  return static_cast<std::byte*>(matrix.raw()) +
         static_cast<std::size_t>(row * matrix.columns()) * element_size(matrix.dtype());
}
const void* row_of(const Tensor& matrix, Index row) {
  return static_cast<const std::byte*>(matrix.raw()) +
         static_cast<std::size_t>(row * matrix.columns()) * element_size(matrix.dtype());
}

/// The compiled product of a dense layer for each block.
std::vector<const PackedLinear::Kernel*> kernels_of(const PackedLinear& dense, const RowPlan& plan,
                                                    DType output) {
  std::vector<const PackedLinear::Kernel*> kernels;
  for (const RowBlock& block : plan.blocks) {
    kernels.push_back(&dense.kernel(block.rows, output, plan.spread));
  }
  return kernels;
}

/// One buffer of [largest block, width] per worker.
Tensor scratch(const Context& context, const RowPlan& plan, Index width, DType dtype) {
  return context.memory.tensor({plan.workers, plan.largest() * width}, dtype);
}

void normalise_block(const LayerNorm& norm, float* x, const void* residual, Tensor& out,
                     const RowBlock& block) {
  kernels::add_layer_norm({.x = x,
                           .residual = residual,
                           .gamma = norm.weight.data<float>(),
                           .beta = norm.bias.data<float>(),
                           .epsilon = norm.epsilon,
                           .rows = block.rows,
                           .columns = out.columns()},
                          row_of(out, block.begin), out.dtype());
}

}  // namespace

Tensor linear(const Context& context, const Tensor& x, const PackedLinear& dense, DType output) {
  Tensor y = context.memory.tensor({x.rows(), dense.out_features()}, output);
  const RowPlan plan = plan_rows(x.rows(), context.threads);
  const auto kernels = kernels_of(dense, plan, output);
  parallel_for(plan.workers, plan.count(), [&](Index b) {
    const auto i = static_cast<std::size_t>(b);
    dense.run(*kernels[i], row_of(x, plan.blocks[i].begin), row_of(y, plan.blocks[i].begin));
  });
  return y;
}

Tensor layer_norm(const Context& context, const Tensor& x, const LayerNorm& norm) {
  Tensor y = context.memory.tensor(x.shape(), x.dtype());
  const RowPlan plan = plan_rows(x.rows(), context.threads);
  Tensor sums = scratch(context, plan, x.columns(), DType::f32);
  parallel_for(plan.workers, plan.count(), [&](Index b) {
    const RowBlock& block = plan.blocks[static_cast<std::size_t>(b)];
    auto* sum = static_cast<float*>(row_of(sums, thread_number()));
    std::fill_n(sum, block.rows * x.columns(), 0.0f);
    normalise_block(norm, sum, row_of(x, block.begin), y, block);
  });
  return y;
}

Tensor linear_add_norm(const Context& context, const Tensor& x, const PackedLinear& dense,
                       const Tensor& residual, const LayerNorm& norm) {
  Tensor y = context.memory.tensor({x.rows(), dense.out_features()}, context.dtype);
  const RowPlan plan = plan_rows(x.rows(), context.threads);
  const auto kernels = kernels_of(dense, plan, DType::f32);
  Tensor sums = scratch(context, plan, dense.out_features(), DType::f32);
  parallel_for(plan.workers, plan.count(), [&](Index b) {
    const auto i = static_cast<std::size_t>(b);
    auto* sum = static_cast<float*>(row_of(sums, thread_number()));
    dense.run(*kernels[i], row_of(x, plan.blocks[i].begin), sum);
    normalise_block(norm, sum, row_of(residual, plan.blocks[i].begin), y, plan.blocks[i]);
  });
  return y;
}

Tensor feed_forward_add_norm(const Context& context, const Tensor& x, const PackedLinear& up,
                             const PackedLinear& down, const LayerNorm& norm) {
  Tensor y = context.memory.tensor(x.shape(), context.dtype);
  const RowPlan plan = plan_rows(x.rows(), context.threads);
  const auto up_kernels = kernels_of(up, plan, context.dtype);
  const auto down_kernels = kernels_of(down, plan, DType::f32);
  Tensor wide = scratch(context, plan, up.out_features(), context.dtype);
  Tensor sums = scratch(context, plan, x.columns(), DType::f32);
  parallel_for(plan.workers, plan.count(), [&](Index b) {
    const auto i = static_cast<std::size_t>(b);
    const void* rows = row_of(x, plan.blocks[i].begin);
    void* intermediate = row_of(wide, thread_number());
    auto* sum = static_cast<float*>(row_of(sums, thread_number()));
    up.run(*up_kernels[i], rows, intermediate);
    down.run(*down_kernels[i], intermediate, sum);
    normalise_block(norm, sum, rows, y, plan.blocks[i]);
  });
  return y;
}

std::vector<Tensor> project_heads(const Context& context, const Tensor& x,
                                  const PackedLinear& projections, Index heads, Index head_size) {
  const Index n = x.rows();
  const Index width = heads * head_size;
  const Index parts = projections.out_features() / width;
  std::vector<Tensor> projected;
  for (Index part = 0; part < parts; ++part) {
    projected.push_back(context.memory.tensor({heads, n, head_size}, context.dtype));
  }
  const RowPlan plan = plan_rows(n, context.threads);
  const auto kernels = kernels_of(projections, plan, context.dtype);
  Tensor stacked = scratch(context, plan, projections.out_features(), context.dtype);
  const std::size_t element = element_size(context.dtype);
  const std::size_t head_bytes = static_cast<std::size_t>(head_size) * element;
  parallel_for(plan.workers, plan.count(), [&](Index b) {
    const auto i = static_cast<std::size_t>(b);
    auto* rows = static_cast<std::byte*>(row_of(stacked, thread_number()));
    projections.run(*kernels[i], row_of(x, plan.blocks[i].begin), rows);
    for (Index part = 0; part < parts; ++part) {
      auto* base = static_cast<std::byte*>(projected[static_cast<std::size_t>(part)].raw());
      for (Index head = 0; head < heads; ++head) {
        auto* to = base + static_cast<std::size_t>(head * n + plan.blocks[i].begin) * head_bytes;
        const auto* from =
            rows + static_cast<std::size_t>(part * width + head * head_size) * element;
        for (Index row = 0; row < plan.blocks[i].rows; ++row) {
          std::memcpy(to, from, head_bytes);
          to += head_bytes;
          from += static_cast<std::size_t>(parts * width) * element;
        }
      }
    }
  });
  return projected;
}

}  // namespace longformer::ops
