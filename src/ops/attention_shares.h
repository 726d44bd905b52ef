// Shares of attention by kind and by age of rows (docs/spec/language-models.md#g2-shares).
#pragma once

#include <array>
#include <span>
#include <vector>

#include "ops/attention.h"

namespace longformer::ops {

/// The rows of a group are in so many parts of equal size by age, oldest first; the last part takes
/// the rest.
inline constexpr Index kAges = 6;
using AgeShares = std::array<double, kAges>;

/// Mean over heads and queries of the probability that goes to each part of each group; all
/// together are 1. `sizes` are the rows of a stream in each group when it is full. It has no
/// backward pass.
std::vector<AgeShares> attention_shares(const Context& context, const Tensor& query,
                                        std::span<const KeyGroup> groups,
                                        std::span<const Index> sizes);

}  // namespace longformer::ops
