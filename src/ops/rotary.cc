#include "ops/rotary.h"

#include <algorithm>
#include <utility>

#include "core/threads.h"
#include "kernels/rotary.h"
#include "ops/gradients.h"
#include "ops/on_device.h"
#include "ops/row_blocks.h"

namespace longformer::ops {
namespace {

/// y may be x.
void turn(const Context& context, const Rotation& rotation, kernels::Turn way, const Tensor& x,
          Tensor& y) {
  const Index heads = x.dimension(0), n = x.dimension(1);
  constexpr Index kRows = 256;
  const Index blocks = (n + kRows - 1) / kRows;
  parallel_for(context.threads, heads * blocks, [&](Index i) {
    const Index head = i / blocks, first = i % blocks * kRows;
    kernels::rotate_rows({.table = rotation.table,
                          .places = rotation.places,
                          .first = first,
                          .rows = std::min(kRows, n - first),
                          .turn = way,
                          .pairs_neighbours = rotation.pairs_neighbours},
                         row_of(x, head), row_of(y, head), x.dtype());
  });
}

}  // namespace

Tensor rotation_table(std::span<const RotationPart> parts, double scale) {
  Index rows = 0;
  for (const RotationPart& part : parts) rows += part.rows;
  const auto width = static_cast<Index>(2 * parts[0].frequencies.size());
  Tensor table({rows, width}, DType::f32);
  Index first = 0;
  for (const RotationPart& part : parts) {
    Tensor own = table.slice_rows(first, part.rows);
    kernels::fill_rotations(part.frequencies, static_cast<float>(scale), 0, part.rows, own);
    first += part.rows;
  }
  return table;
}

Tensor rotate(const Context& context, const Tensor& x,
              const std::shared_ptr<const Rotation>& rotation) {
  if (x.is_on_device()) return on_device::rotate(x, rotation);
  Tensor y = context.memory.tensor(x.shape(), x.dtype());
  turn(context, *rotation, kernels::Turn::forward, x, y);
  if (!wants_backward(context, x)) return y;
  record(context, "rotate", y, [context, x, rotation](Tensor gradient) {
    turn(context, *rotation, kernels::Turn::back, gradient, gradient);
    send_gradient(context, x, std::move(gradient));
  });
  return y;
}

}  // namespace longformer::ops
