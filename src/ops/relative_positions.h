// Positions that count from the query (spec.md D.2, G.1).
#pragma once

#include <span>

#include "ops/context.h"

namespace longformer::ops {

/// Row δ is that of the distance δ < count: sines of δ·10000^(−2t/D), then their cosines,
/// [count, D] of the dtype of the context. D is even.
Tensor sinusoids(const Context& context, Index count, Index width);

/// From x [H, S·m, d] the rows section·m … section·m + m − 1 of each head, [H, m, d]; one section
/// per head.
Tensor head_sections(const Context& context, const Tensor& x, Index m,
                     std::span<const Index> sections);

}  // namespace longformer::ops
