#include "ops/normalization.h"

#include <algorithm>
#include <cstring>

#include "core/threads.h"
#include "kernels/elementwise.h"
#include "kernels/normalization.h"
#include "ops/dropout.h"
#include "ops/gradients.h"
#include "ops/on_device.h"
#include "ops/row_blocks.h"

namespace longformer::ops {
namespace {

/// `residual` is null for none.
Tensor linear_add_norm_packed(const Context& context, const Tensor& x,
                              const kernels::PackedLinear& dense, const Tensor* residual,
                              const LayerNorm& norm) {
  Tensor y = context.memory.tensor({x.rows(), dense.out_features()}, context.dtype);
  const RowPlan plan = plan_rows(x.rows(), context.threads);
  const auto kernels = kernels_of(dense, plan, DType::f32);
  Tensor sums = scratch(context, plan, dense.out_features(), DType::f32);
  parallel_for(plan.workers, plan.count(), [&](Index b) {
    const auto i = static_cast<std::size_t>(b);
    auto* sum = static_cast<float*>(row_of(sums, thread_number()));
    const Index begin = plan.blocks[i].begin;
    const Tensor rows = x.slice_rows(begin, plan.blocks[i].rows).to(dense.dtype());
    dense.run(*kernels[i], rows.raw(), sum);
    normalise_block(norm, sum, residual == nullptr ? nullptr : row_of(*residual, begin), y,
                    plan.blocks[i]);
  });
  return y;
}

/// layer_norm() of rows that are not fp32, for serving. Their sums exist for a few rows at a time:
/// those of all rows took 1.5 % of a ModernBERT's time, and 4 MB.
Tensor layer_norm_narrow(const Context& context, const Tensor& x, const LayerNorm& norm) {
  constexpr Index kRows = 8;
  Tensor y = context.memory.tensor(x.shape(), x.dtype());
  const Index count = (x.rows() + kRows - 1) / kRows;
  const Tensor sums = context.memory.tensor({context.threads * kRows, x.columns()}, DType::f32);
  parallel_for(context.threads, count, [&](Index b) {
    const RowBlock block = {b * kRows, std::min(kRows, x.rows() - b * kRows)};
    Tensor sum = sums.slice_rows(thread_number() * kRows, block.rows);
    std::memset(sum.raw(), 0, sum.bytes());
    normalise_block(norm, static_cast<float*>(sum.raw()), row_of(x, block.begin), y, block);
  });
  return y;
}

}  // namespace

void normalise_block(const LayerNorm& norm, float* x, const void* residual, Tensor& out,
                     const RowBlock& block) {
  kernels::add_layer_norm({.x = x,
                           .residual = residual,
                           .gamma = norm.weight.data<float>(),
                           .gamma_offset = norm.gain_offset,
                           .beta = norm.bias.empty() ? nullptr : norm.bias.data<float>(),
                           .epsilon = norm.epsilon,
                           .rows = block.rows,
                           .columns = out.columns(),
                           .centres = norm.centres},
                          row_of(out, block.begin), out.dtype());
}

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
  const bool has_bias = !norm.bias.empty();
  Tensor partial = context.memory.zeros({trained ? blocks : 0, 2 * width}, DType::f32);
  parallel_for(context.threads, blocks, [&](Index b) {
    const Index first = b * kRows;
    float* sums = partial.data<float>() + b * 2 * width;
    kernels::layer_norm_backward({.x = static_cast<const float*>(row_of(sum, first)),
                                  .gamma = norm.weight.data<float>(),
                                  .gamma_offset = norm.gain_offset,
                                  .epsilon = norm.epsilon,
                                  .rows = std::min(kRows, sum.rows() - first),
                                  .columns = width,
                                  .centres = norm.centres,
                                  .gamma_gradient = trained ? sums : nullptr,
                                  .beta_gradient = trained && has_bias ? sums + width : nullptr},
                                 row_of(gradient, first), gradient.dtype());
  });
  if (!trained) return;
  kernels::ColumnSums rows = {
      .x = partial.raw(), .rows = blocks, .columns = width, .stride = 2 * width};
  kernels::add_column_sums(rows, DType::f32, parameter_gradient(norm.weight).data<float>());
  if (!has_bias) return;
  rows.x = partial.data<float>() + width;
  kernels::add_column_sums(rows, DType::f32, parameter_gradient(norm.bias).data<float>());
}

Tensor layer_norm(const Context& context, const Tensor& x, const LayerNorm& norm) {
  if (x.is_on_device()) return on_device::layer_norm(x, norm);
  const bool trains = wants_backward(context, x, norm);
  if (x.dtype() != DType::f32 && !trains) return layer_norm_narrow(context, x, norm);
  // Rows in fp32 are their own sum.
  Tensor sum = x;
  if (x.dtype() != DType::f32) sum = context.memory.zeros(x.shape(), DType::f32);
  const Tensor* residual = x.dtype() == DType::f32 ? nullptr : &x;
  Tensor y = add_norm(context, sum, residual, norm, x.dtype());
  if (!trains) return y;
  record(context, "layer_norm", y, [context, x, sum, norm](Tensor gradient) {
    add_norm_backward(context, sum, norm, gradient);
    send_gradient(context, x, std::move(gradient));
  });
  return y;
}

Tensor linear_norm(const Context& context, const Tensor& x, const Linear& dense,
                   const LayerNorm& norm) {
  if (dense.packed() == nullptr) {
    return layer_norm(context, linear(context, x, dense, context.dtype), norm);
  }
  refuse_packed(context, "linear_norm", dense, x, norm);
  return linear_add_norm_packed(context, x, *dense.packed(), nullptr, norm);
}

Tensor linear_add_norm(const Context& context, const Tensor& x, const Linear& dense,
                       const Tensor& residual, const LayerNorm& norm, const Dropout& dropout) {
  if (x.is_on_device()) return on_device::linear_add_norm(x, dense, residual, norm);
  refuse_packed(context, "linear_add_norm", dense, x, residual, norm);
  if (dense.packed() != nullptr) {
    return linear_add_norm_packed(context, x, *dense.packed(), &residual, norm);
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

}  // namespace longformer::ops
