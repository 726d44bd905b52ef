#include "ops/feed_forward.h"

#include <utility>

#include "core/threads.h"
#include "kernels/elementwise.h"
#include "ops/dropout.h"
#include "ops/gradients.h"
#include "ops/on_device.h"
#include "ops/row_blocks.h"

namespace longformer::ops {
namespace {

/// Both halves of rows first … first + rows − 1 of what `up` has made of n rows. Products of two
/// weights that are not packed are two matrices, one after the other.
kernels::GatedRows gated_rows(const FeedForward& block, const Tensor& made, Index first,
                              Index rows) {
  const Index width = block.down.in_features();
  const bool is_two = block.up.weights().size() == 2;
  const Index stride = is_two ? width : 2 * width;
  const Index second = is_two ? made.rows() * width : width;
  const bool swaps = block.gate->activates_second;
  const Index begin = first * stride + (swaps ? second : 0);
  return {.activation = block.gate->activation,
          .x = static_cast<const std::byte*>(made.raw()) +
               static_cast<std::size_t>(begin) * element_size(made.dtype()),
          .other = swaps ? -second : second,
          .rows = rows,
          .columns = width,
          .stride = stride};
}

/// The wide rows that `down` reads, from what `up` has made.
Tensor between(const Context& context, const FeedForward& block, const Tensor& made) {
  if (!block.gate) return activated(context, *block.up.activation(), made);
  Tensor wide = context.memory.tensor({made.rows(), block.down.in_features()}, made.dtype());
  for_row_blocks(context, made.rows(), [&](Index first, Index rows) {
    kernels::gate(gated_rows(block, made, first, rows), row_of(wide, first), wide.dtype());
  });
  return wide;
}

/// From the gradient of those wide rows to that of what `up` has made.
Tensor between_backward(const Context& context, const FeedForward& block, const Tensor& made,
                        Tensor gradient) {
  if (!block.gate) {
    activation_backward(context, *block.up.activation(), made, gradient);
    return gradient;
  }
  Tensor parts = context.memory.tensor(made.shape(), made.dtype());
  for_row_blocks(context, made.rows(), [&](Index first, Index rows) {
    const kernels::GatedRows from = gated_rows(block, made, first, rows);
    // The gradients lie as the halves do.
    const auto place =
        static_cast<const std::byte*>(from.x) - static_cast<const std::byte*>(made.raw());
    kernels::gate_backward(from, row_of(gradient, first),
                           static_cast<std::byte*>(parts.raw()) + place, parts.dtype());
  });
  return parts;
}

/// down(up(x)) + residual, with a norm behind it or without.
Tensor feed_forward_packed(const Context& context, const Tensor& x, const FeedForward& block,
                           const Tensor& residual, const LayerNorm* norm) {
  const kernels::PackedLinear &up = *block.up.packed(), &down = *block.down.packed();
  Tensor y = context.memory.tensor(residual.shape(), context.dtype);
  const RowPlan plan = plan_rows(x.rows(), context.threads);
  const auto up_kernels = kernels_of(up, plan, context.dtype);
  const auto down_kernels = kernels_of(down, plan, norm != nullptr ? DType::f32 : context.dtype);
  Tensor made = scratch(context, plan, up.out_features(), context.dtype);
  Tensor sums = scratch(context, plan, norm != nullptr ? y.columns() : 0, DType::f32);
  parallel_for(plan.workers, plan.count(), [&](Index b) {
    const auto i = static_cast<std::size_t>(b);
    const auto [begin, rows] = plan.blocks[i];
    void* wide = row_of(made, thread_number());
    up.run(*up_kernels[i], row_of(x, begin), wide);
    if (block.gate) {
      kernels::gate(gated_rows(block, made.slice_rows(thread_number(), 1), 0, rows), wide,
                    context.dtype);
    }
    if (norm == nullptr) {
      down.run(*down_kernels[i], wide, row_of(y, begin));
      kernels::add(row_of(residual, begin), row_of(y, begin), rows * y.columns(), y.dtype());
    } else {
      auto* sum = static_cast<float*>(row_of(sums, thread_number()));
      down.run(*down_kernels[i], wide, sum);
      normalise_block(*norm, sum, row_of(residual, begin), y, plan.blocks[i]);
    }
  });
  return y;
}

/// A pass down(dropout(up(x))), where `made` is up(x) before its activation or gate.
struct FeedForwardPass {
  const Tensor& x;
  const FeedForward& block;
  const Tensor& made;
  Dropout dropout = {};
};

/// From the gradient of its result to those of the block and x.
void feed_forward_backward(const Context& context, const FeedForwardPass& pass,
                           const Tensor& gradient) {
  const auto& [x, block, made, dropout] = pass;
  // The activation is computed again: kept, it would be a third of all activations.
  Tensor wide = between(context, block, made);
  drop_elements(context, dropout, wide);
  const bool trained = wants_gradient(x) || wants_gradient(block.up);
  if (trained) Tape::track(wide);
  multiply_backward(context, wide, block.down, gradient);
  if (!trained) return;
  Tensor inner = wide.gradient()->take();
  wide = Tensor();
  drop_elements(context, dropout, inner);
  multiply_backward(context, x, block.up, between_backward(context, block, made, inner));
}

}  // namespace

Tensor feed_forward_add_norm(const Context& context, const Tensor& x, const FeedForward& block,
                             const LayerNorm& norm, const FeedForwardDropout& dropout) {
  if (x.is_on_device()) return on_device::feed_forward(x, block, x, &norm);
  refuse_packed(context, "feed_forward_add_norm", block.up, x, norm);
  if (block.up.packed() != nullptr) return feed_forward_packed(context, x, block, x, &norm);
  const Tensor made = multiply(context, x, block.up, context.dtype);
  Tensor sum = [&] {
    Tensor wide = between(context, block, made);
    drop_elements(context, dropout.inner, wide);
    return multiply(context, wide, block.down, DType::f32);
  }();
  drop_elements(context, dropout.outer, sum);
  Tensor y = add_norm(context, sum, &x, norm, context.dtype);
  if (!wants_backward(context, x, block, norm)) return y;
  record(context, "feed_forward_add_norm", y,
         [context, x, &block, norm, dropout, made, sum](Tensor gradient) {
           add_norm_backward(context, sum, norm, gradient);
           feed_forward_backward(context, {x, block, made, dropout.inner},
                                 dropout_backward(context, dropout.outer, gradient));
           send_gradient(context, x, std::move(gradient));
         });
  return y;
}

Tensor feed_forward_add(const Context& context, const Tensor& x, const FeedForward& block,
                        const Tensor& residual, const FeedForwardDropout& dropout) {
  if (x.is_on_device()) return on_device::feed_forward(x, block, residual, nullptr);
  refuse_packed(context, "feed_forward_add", block.up, x);
  if (block.up.packed() != nullptr)
    return feed_forward_packed(context, x, block, residual, nullptr);
  const Tensor made = multiply(context, x, block.up, context.dtype);
  Tensor y = [&] {
    Tensor wide = between(context, block, made);
    drop_elements(context, dropout.inner, wide);
    return multiply(context, wide, block.down, context.dtype);
  }();
  drop_elements(context, dropout.outer, y);
  add_to(context, residual, y);
  if (!wants_backward(context, x, block, residual)) return y;
  record(context, "feed_forward_add", y,
         [context, x, &block, residual, dropout, made](Tensor gradient) {
           feed_forward_backward(context, {x, block, made, dropout.inner},
                                 dropout_backward(context, dropout.outer, gradient));
           send_gradient(context, residual, std::move(gradient));
         });
  return y;
}

}  // namespace longformer::ops
