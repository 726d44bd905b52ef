#include "ops/heads.h"

#include <utility>
#include <vector>

#include "core/threads.h"
#include "kernels/head_rows.h"
#include "ops/gradients.h"

namespace longformer::ops {
namespace {

/// x under another shape of equal size.
Tensor viewed(const Context& context, const Tensor& x, const Shape& shape) {
  Tensor y = x.reshaped(shape);
  if (!wants_backward(context, x)) return y;
  record(context, "viewed", y, [context, x](const Tensor& gradient) {
    send_gradient(context, x, gradient.reshaped(x.shape()));
  });
  return y;
}

}  // namespace

Tensor take_heads(const Context& context, const Tensor& x, std::span<const Index> heads) {
  const auto count = static_cast<Index>(heads.size());
  Tensor chosen = context.memory.tensor({count, x.dimension(1), x.dimension(2)}, x.dtype());
  parallel_for(context.threads, count, [&](Index i) { kernels::take_head(x, heads, i, chosen); });
  if (!wants_backward(context, x)) return chosen;
  record(context, "take_heads", chosen,
         [context, x, kept = std::vector(heads.begin(), heads.end())](const Tensor& gradient) {
           Tensor dx = context.memory.tensor(x.shape(), x.dtype());
           parallel_for(context.threads, x.dimension(0),
                        [&](Index head) { kernels::sum_taken_heads(gradient, kept, head, dx); });
           send_gradient(context, x, std::move(dx));
         });
  return chosen;
}

Tensor take_head_rows(const Context& context, const Tensor& x,
                      std::shared_ptr<const std::vector<Index>> rows) {
  const Index heads = x.dimension(0);
  Tensor chosen =
      context.memory.tensor({heads, std::ssize(*rows) / heads, x.dimension(2)}, x.dtype());
  parallel_for(context.threads, heads,
               [&](Index head) { kernels::take_head_rows(x, *rows, head, chosen); });
  if (!wants_backward(context, x)) return chosen;
  record(context, "take_head_rows", chosen,
         [context, x, rows = std::move(rows)](const Tensor& gradient) {
           Tensor dx = context.memory.tensor(x.shape(), x.dtype());
           parallel_for(context.threads, x.dimension(0), [&](Index head) {
             kernels::sum_taken_head_rows(gradient, *rows, head, dx);
           });
           send_gradient(context, x, std::move(dx));
         });
  return chosen;
}

Tensor norm_heads(const Context& context, const Tensor& x, const LayerNorm& norm) {
  const Shape shape = {x.dimension(0) * x.dimension(1), x.dimension(2)};
  return viewed(context, layer_norm(context, viewed(context, x, shape), norm), x.shape());
}

}  // namespace longformer::ops
