#include "ops/heads.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/threads.h"
#include "kernels/head_rows.h"
#include "ops/device.h"
#include "ops/gradients.h"
#include "ops/on_device.h"

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
  if (x.is_on_device()) return on_device::take_heads(x, heads);
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
  refuse_device("take_head_rows", x);
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

Tensor mean_head_rows(const Context& context, const Tensor& x,
                      std::shared_ptr<const std::vector<Index>> places, Index heads, Index n) {
  refuse_device("mean_head_rows", x);
  const Index size = x.columns() / heads;
  Tensor mean = context.memory.tensor({n, x.columns()}, x.dtype());
  parallel_for(context.threads, heads, [&](Index head) {
    kernels::mean_head_rows({*places, head, size}, x, mean);
  });
  if (!wants_backward(context, x)) return mean;
  record(context, "mean_head_rows", mean,
         [context, x, places = std::move(places), heads, size](const Tensor& gradient) {
           Tensor dx = context.memory.tensor(x.shape(), x.dtype());
           parallel_for(context.threads, heads, [&](Index head) {
             kernels::mean_head_rows_backward({*places, head, size}, gradient, dx);
           });
           send_gradient(context, x, std::move(dx));
         });
  return mean;
}

Tensor join_heads(const Context& context, std::span<const Tensor> parts,
                  std::span<const std::vector<Index>> heads, Index head_size) {
  refuse_device("join_heads", parts[0]);
  struct Place {
    std::size_t part;
    kernels::HeadColumns columns;
  };
  std::vector<Place> places;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (std::size_t i = 0; i < heads[part].size(); ++i) {
      places.push_back({part, {head_size, static_cast<Index>(i), heads[part][i]}});
    }
  }
  const auto count = std::ssize(places);
  Tensor joined = context.memory.tensor({parts[0].rows(), count * head_size}, parts[0].dtype());
  parallel_for(context.threads, count, [&](Index i) {
    const Place& place = places[at(i)];
    kernels::copy_head_columns(place.columns, parts[place.part], joined);
  });
  const auto is_trained = [&](const Tensor& part) { return wants_backward(context, part); };
  if (std::none_of(parts.begin(), parts.end(), is_trained)) return joined;
  record(context, "join_heads", joined,
         [context, places, kept = std::vector(parts.begin(), parts.end())](const Tensor& gradient) {
           std::vector<Tensor> back;
           for (const Tensor& part : kept) {
             back.push_back(context.memory.tensor(part.shape(), part.dtype()));
           }
           parallel_for(context.threads, std::ssize(places), [&](Index i) {
             const auto& [part, columns] = places[at(i)];
             kernels::copy_head_columns({columns.head_size, columns.to, columns.from}, gradient,
                                        back[part]);
           });
           for (std::size_t part = 0; part < kept.size(); ++part) {
             send_gradient(context, kept[part], std::move(back[part]));
           }
         });
  return joined;
}

Tensor norm_heads(const Context& context, const Tensor& x, const LayerNorm& norm) {
  const Shape shape = {x.dimension(0) * x.dimension(1), x.dimension(2)};
  return viewed(context, layer_norm(context, viewed(context, x, shape), norm), x.shape());
}

}  // namespace longformer::ops
