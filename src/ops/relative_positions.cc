#include "ops/relative_positions.h"

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "core/threads.h"
#include "ops/gradients.h"
#include "ops/row_blocks.h"

namespace longformer::ops {
namespace {

/// Calls copy(row of x, row of the sections, bytes) for each head.
template <typename Copy>
void for_sections(const Tensor& x, const Tensor& chosen, std::span<const Index> sections,
                  const Copy& copy) {
  const Index d = x.dimension(2);
  const Index m = chosen.dimension(1);
  const std::size_t bytes = static_cast<std::size_t>(m * d) * element_size(x.dtype());
  for (Index head = 0; head < x.dimension(0); ++head) {
    const Index from = head * x.dimension(1) + sections[static_cast<std::size_t>(head)] * m;
    copy(static_cast<std::size_t>(from * d) * element_size(x.dtype()),
         static_cast<std::size_t>(head) * bytes, bytes);
  }
}

}  // namespace

Tensor sinusoids(const Context& context, Index count, Index width) {
  Tensor table = context.memory.tensor({count, width}, DType::f32);
  const Index half = width / 2;
  std::vector<double> frequencies(static_cast<std::size_t>(half));
  for (Index t = 0; t < half; ++t) {
    frequencies[static_cast<std::size_t>(t)] =
        std::pow(10000.0, -2.0 * static_cast<double>(t) / static_cast<double>(width));
  }
  for_row_blocks(context, count, [&](Index first, Index rows) {
    for (Index row = first; row < first + rows; ++row) {
      float* to = table.data<float>() + row * width;
      for (Index t = 0; t < half; ++t) {
        const double angle = static_cast<double>(row) * frequencies[static_cast<std::size_t>(t)];
        to[t] = static_cast<float>(std::sin(angle));
        to[half + t] = static_cast<float>(std::cos(angle));
      }
    }
  });
  return table.to(context.dtype);
}

Tensor head_sections(const Context& context, const Tensor& x, Index m,
                     std::span<const Index> sections) {
  Tensor chosen = context.memory.tensor({x.dimension(0), m, x.dimension(2)}, x.dtype());
  const auto* from = static_cast<const std::byte*>(x.raw());
  for_sections(x, chosen, sections, [&](std::size_t at, std::size_t to, std::size_t bytes) {
    std::memcpy(static_cast<std::byte*>(chosen.raw()) + to, from + at, bytes);
  });
  if (!wants_backward(context, x)) return chosen;
  record(context, "head_sections", chosen,
         [context, x,
          kept = std::vector<Index>(sections.begin(), sections.end())](const Tensor& gradient) {
           Tensor dx = context.memory.zeros(x.shape(), x.dtype());
           for_sections(x, gradient, kept, [&](std::size_t at, std::size_t to, std::size_t bytes) {
             std::memcpy(static_cast<std::byte*>(dx.raw()) + at,
                         static_cast<const std::byte*>(gradient.raw()) + to, bytes);
           });
           send_gradient(context, x, std::move(dx));
         });
  return chosen;
}

}  // namespace longformer::ops
