// Positions as two coordinates, of which each has a table (Reformer's code;
// docs/spec/other-attentions.md#h3).
#pragma once

#include <span>

#include "ops/context.h"

namespace longformer::ops {

/// Row i is [first[p ÷ s] | second[p mod s]] with p = places[i] and s the rows of second: of tables
/// [r, a] and [s, b] fp32 to [n, a + b].
Tensor axial_positions(const Context& context, const Tensor& first, const Tensor& second,
                       std::span<const Index> places);

}  // namespace longformer::ops
