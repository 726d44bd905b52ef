#include "ops/reversible.h"

#include <cassert>
#include <cstring>
#include <utility>

#include "kernels/elementwise.h"
#include "ops/device.h"
#include "ops/gradients.h"
#include "ops/recompute.h"
#include "ops/residual.h"
#include "ops/row_blocks.h"

namespace longformer::ops {
namespace {

Tensor same_numbers(const Context& context, const Tensor& x) {
  Tensor copy = context.memory.tensor(x.shape(), x.dtype());
  std::memcpy(copy.raw(), x.raw(), x.bytes());
  return copy;
}

/// Columns of one stream of [n, 2D].
Tensor stream_of(const Context& context, const Tensor& joined, bool second) {
  const Index n = joined.rows(), columns = joined.columns() / 2;
  Tensor x = context.memory.tensor({n, columns}, joined.dtype());
  const std::size_t bytes = at(columns) * element_size(x.dtype());
  for_row_blocks(context, n, [&](Index begin, Index rows) {
    for (Index row = begin; row < begin + rows; ++row) {
      const auto* from = static_cast<const std::byte*>(row_of(joined, row));
      std::memcpy(row_of(x, row), from + (second ? bytes : 0), bytes);
    }
  });
  return x;
}

Tensor side_by_side(const Context& context, const Tensor& first, const Tensor& second) {
  const Index n = first.rows();
  Tensor y = context.memory.tensor({n, 2 * first.columns()}, first.dtype());
  const std::size_t bytes = at(first.columns()) * element_size(y.dtype());
  for_row_blocks(context, n, [&](Index begin, Index rows) {
    for (Index row = begin; row < begin + rows; ++row) {
      auto* to = static_cast<std::byte*>(row_of(y, row));
      std::memcpy(to, row_of(first, row), bytes);
      std::memcpy(to + bytes, row_of(second, row), bytes);
    }
  });
  return y;
}

void take_off(const Context& context, const Tensor& x, Tensor& from) {
  Tensor negative = same_numbers(context, x);
  for_elements(context, negative, [&](Index, Index count, std::size_t at) {
    kernels::scale(-1, static_cast<std::byte*>(negative.raw()) + at, count, negative.dtype());
  });
  add_to(context, negative, from);
}

/// Both streams with their gradients, on their way back.
struct Streams {
  Tensor first, second;
  Tensor first_gradient, second_gradient;
};

/// Undoes to += part(from): takes what was added off again, and adds to the gradient of `from`.
void undo(const Context& context, const StreamPart& part, const Tensor& from, Tensor& to,
          const Tensor& to_gradient, Tensor& from_gradient) {
  Tape tape;
  Context again = context;
  again.tape = &tape;
  Tensor input = from;
  Tape::track(input);
  {
    const Tensor added = part(again, input);
    take_off(context, added, to);
    if (!wants_gradient(added)) return;
    added.gradient()->sum = to_gradient;
  }
  tape.backward();
  const Tensor gradient = input.gradient()->take();
  if (!gradient.empty()) add_to(context, gradient, from_gradient);
}

void layer_backward(const Context& context, const ReversibleLayer& layer, Streams& s) {
  undo(context, layer.g, s.first, s.second, s.second_gradient, s.first_gradient);
  undo(context, layer.f, s.second, s.first, s.first_gradient, s.second_gradient);
}

}  // namespace

Tensor reversible(const Context& context, const Tensor& x, std::vector<ReversibleLayer> layers,
                  const StreamsObserver& observe) {
  refuse_device("reversible", x);
  assert(context.tape == nullptr || x.dtype() == DType::f32);
  Context plain = context;
  plain.tape = nullptr;
  Tensor y;
  {
    Tensor first = same_numbers(context, x), second = same_numbers(context, x);
    if (observe) observe(first, second);
    for (const ReversibleLayer& layer : layers) {
      add_to(plain, layer.f(plain, second), first);
      add_to(plain, layer.g(plain, first), second);
      if (observe) observe(first, second);
    }
    y = side_by_side(context, first, second);
  }
  if (context.tape == nullptr) return y;
  const Tensor end = y;
  record(context, "reversible", y, [plain, x, end, layers = std::move(layers)](Tensor gradient) {
    Streams s = {stream_of(plain, end, false), stream_of(plain, end, true),
                 stream_of(plain, gradient, false), stream_of(plain, gradient, true)};
    gradient = Tensor();
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
      layer_backward(plain, *layer, s);
    }
    add_to(plain, s.second_gradient, s.first_gradient);
    send_gradient(plain, x, std::move(s.first_gradient));
  });
  return y;
}

Tensor joined_columns(const Context& context, const Tensor& first, const Tensor& second) {
  refuse_device("joined_columns", first, second);
  Tensor y = side_by_side(context, first, second);
  if (!wants_backward(context, first, second)) return y;
  record(context, "joined_columns", y, [context, first, second](const Tensor& gradient) {
    send_gradient(context, first, stream_of(context, gradient, false));
    send_gradient(context, second, stream_of(context, gradient, true));
  });
  return y;
}

Tensor kept_streams(const Context& context, const Tensor& x,
                    const std::vector<ReversibleLayer>& layers) {
  const auto run = [&](const StreamPart& part, const Tensor& from) {
    if (!context.recomputes) return part(context, from);
    return recompute(context, {from}, [part](const Context& inner, std::span<const Tensor> in) {
      return std::vector<Tensor>{part(inner, in[0])};
    })[0];
  };
  Tensor first = x, second = x;
  for (const ReversibleLayer& layer : layers) {
    first = add(context, run(layer.f, second), first);
    second = add(context, run(layer.g, first), second);
  }
  return joined_columns(context, first, second);
}

}  // namespace longformer::ops
