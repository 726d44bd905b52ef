// Layers that are undone on the way back instead of kept (RevNet, arXiv 1707.04585; Reformer, arXiv
// 2001.04451 §3): memory of activations does not grow with their number.
//
// n rows, D columns of each of two streams.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "ops/context.h"

namespace longformer::ops {

/// From [n, D] to [n, D], a value of its own: the same context and input give the same bits. What
/// it needs beside its input it may capture; that must live until the backward pass.
using StreamPart = std::function<Tensor(const Context& context, const Tensor& x)>;

/// y₁ = x₁ + f(x₂), then y₂ = x₂ + g(y₁).
struct ReversibleLayer {
  StreamPart f, g;
};

/// Called with both streams before the first layer and after each, where somebody looks.
using StreamsObserver = std::function<void(const Tensor& first, const Tensor& second)>;

/// Both streams begin as x [n, D]; their ends side by side, [n, 2D]. The backward pass finds the
/// input of every layer from its output, up to rounding, and runs its parts once more: fp32 alone.
Tensor reversible(const Context& context, const Tensor& x, std::vector<ReversibleLayer> layers,
                  const StreamsObserver& observe = {});

/// Values and gradients of that with everything kept, or with the inputs of parts alone where the
/// context recomputes.
Tensor kept_streams(const Context& context, const Tensor& x,
                    const std::vector<ReversibleLayer>& layers);

/// [n, D] and [n, D] to [n, 2D].
Tensor joined_columns(const Context& context, const Tensor& first, const Tensor& second);

}  // namespace longformer::ops
