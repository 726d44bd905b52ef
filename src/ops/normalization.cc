#include "ops/normalization.h"

#include <algorithm>

#include "core/threads.h"
#include "kernels/elementwise.h"
#include "kernels/normalization.h"
#include "ops/dropout.h"
#include "ops/gradients.h"
#include "ops/row_blocks.h"

namespace longformer::ops {
namespace {

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

Tensor linear_add_norm_packed(const Context& context, const Tensor& x,
                              const kernels::PackedLinear& dense, const Tensor& residual,
                              const LayerNorm& norm) {
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

Tensor feed_forward_packed(const Context& context, const Tensor& x, const kernels::PackedLinear& up,
                           const kernels::PackedLinear& down, const LayerNorm& norm) {
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

}  // namespace

Tensor add_norm(const Context& context, Tensor& sum, const Tensor* residual, const LayerNorm& norm,
                DType output) {
  Tensor y = context.memory.tensor(sum.shape(), output);
  const RowPlan plan = plan_rows(sum.rows(), context.threads);
  parallel_for(context.threads, plan.count(), [&](Index b) {
    const RowBlock& block = plan.blocks[static_cast<std::size_t>(b)];
    normalise_block(norm, static_cast<float*>(row_of(sum, block.begin)),
                    residual == nullptr ? nullptr : row_of(*residual, block.begin), y, block);
  });
  return y;
}

void add_norm_backward(const Context& context, const Tensor& sum, const LayerNorm& norm,
                       Tensor& gradient) {
  // Sums of few rows, added up in their order: the same bits whichever thread takes which.
  constexpr Index kRows = 16;
  const Index width = sum.columns();
  const Index blocks = (sum.rows() + kRows - 1) / kRows;
  const bool trained = wants_gradient(norm.weight);
  Tensor partial = context.memory.zeros({trained ? blocks : 0, 2 * width}, DType::f32);
  parallel_for(context.threads, blocks, [&](Index b) {
    const Index first = b * kRows;
    float* sums = partial.data<float>() + b * 2 * width;
    kernels::layer_norm_backward({.x = static_cast<const float*>(row_of(sum, first)),
                                  .gamma = norm.weight.data<float>(),
                                  .epsilon = norm.epsilon,
                                  .rows = std::min(kRows, sum.rows() - first),
                                  .columns = width,
                                  .gamma_gradient = trained ? sums : nullptr,
                                  .beta_gradient = trained ? sums + width : nullptr},
                                 row_of(gradient, first), gradient.dtype());
  });
  if (!trained) return;
  kernels::ColumnSums rows = {
      .x = partial.raw(), .rows = blocks, .columns = width, .stride = 2 * width};
  kernels::add_column_sums(rows, DType::f32, parameter_gradient(norm.weight).data<float>());
  rows.x = partial.data<float>() + width;
  kernels::add_column_sums(rows, DType::f32, parameter_gradient(norm.bias).data<float>());
}

Tensor layer_norm(const Context& context, const Tensor& x, const LayerNorm& norm) {
  // Rows in fp32 are their own sum.
  Tensor sum = x;
  if (x.dtype() != DType::f32) sum = context.memory.zeros(x.shape(), DType::f32);
  const Tensor* residual = x.dtype() == DType::f32 ? nullptr : &x;
  Tensor y = add_norm(context, sum, residual, norm, x.dtype());
  if (!wants_backward(context, x, norm)) return y;
  record(context, "layer_norm", y, [context, x, sum, norm](Tensor gradient) {
    add_norm_backward(context, sum, norm, gradient);
    send_gradient(context, x, std::move(gradient));
  });
  return y;
}

Tensor linear_add_norm(const Context& context, const Tensor& x, const Linear& dense,
                       const Tensor& residual, const LayerNorm& norm, const Dropout& dropout) {
  refuse_packed(context, "linear_add_norm", dense, x, residual, norm);
  if (dense.packed() != nullptr) {
    return linear_add_norm_packed(context, x, *dense.packed(), residual, norm);
  }
  Tensor sum = multiply(context, x, dense, DType::f32);
  drop_elements(context, dropout, sum);
  Tensor y = add_norm(context, sum, &residual, norm, context.dtype);
  if (!wants_backward(context, x, dense, residual, norm)) return y;
  record(context, "linear_add_norm", y,
         [context, x, &dense, residual, norm, dropout, sum](Tensor gradient) {
           add_norm_backward(context, sum, norm, gradient);
           multiply_backward(context, x, dense, dropout_backward(context, dropout, gradient));
           send_gradient(context, residual, std::move(gradient));
         });
  return y;
}

void feed_forward_backward(const Context& context, const FeedForwardPass& pass,
                           const Tensor& gradient) {
  const auto& [x, block, before, dropout] = pass;
  // The activation is computed again: kept, it would be a third of all activations.
  Tensor wide = activated(context, *block.up.activation(), before);
  drop_elements(context, dropout, wide);
  const bool trained = wants_gradient(x) || wants_gradient(block.up);
  if (trained) Tape::track(wide);
  multiply_backward(context, wide, block.down, gradient);
  if (!trained) return;
  Tensor inner = wide.gradient()->take();
  wide = Tensor();
  drop_elements(context, dropout, inner);
  activation_backward(context, *block.up.activation(), before, inner);
  multiply_backward(context, x, block.up, inner);
}

Tensor feed_forward_add_norm(const Context& context, const Tensor& x, const FeedForward& block,
                             const LayerNorm& norm, const FeedForwardDropout& dropout) {
  refuse_packed(context, "feed_forward_add_norm", block.up, x, norm);
  if (block.up.packed() != nullptr) {
    return feed_forward_packed(context, x, *block.up.packed(), *block.down.packed(), norm);
  }
  const Tensor before = multiply(context, x, block.up, context.dtype);
  Tensor sum = [&] {
    Tensor wide = activated(context, *block.up.activation(), before);
    drop_elements(context, dropout.inner, wide);
    return multiply(context, wide, block.down, DType::f32);
  }();
  drop_elements(context, dropout.outer, sum);
  Tensor y = add_norm(context, sum, &x, norm, context.dtype);
  if (!wants_backward(context, x, block, norm)) return y;
  record(context, "feed_forward_add_norm", y,
         [context, x, &block, norm, dropout, before, sum](Tensor gradient) {
           add_norm_backward(context, sum, norm, gradient);
           feed_forward_backward(context, {x, block, before, dropout.inner},
                                 dropout_backward(context, dropout.outer, gradient));
           send_gradient(context, x, std::move(gradient));
         });
  return y;
}

}  // namespace longformer::ops
