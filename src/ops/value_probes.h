// Probabilities of any attention that weighs values: what comes out where a value is 1 in one row
// and 0 in all others. For looking at, not for speed: m keys take m/d passes.
#pragma once

#include <functional>
#include <span>

#include "ops/attention.h"

namespace longformer::ops {

/// H heads of size d, and m rows of values.
struct ValueRows {
  Index heads = 0, head_size = 0, rows = 0;
};

/// Takes the probabilities of a head, [n, m] fp32, which it may keep.
using TakeProbabilities = std::function<void(Index head, Tensor probabilities)>;

/// `attend` makes [n, H·d] of values [H, m, d] in the dtype of the context. The probabilities of
/// all given heads are in memory together.
void probabilities_by_values(const Context& context, const ValueRows& values,
                             std::span<const Index> heads,
                             const std::function<Tensor(const Tensor& values)>& attend,
                             const TakeProbabilities& take);

/// Probabilities of one softmax over the keys of groups, of whose documents the first one counts:
/// columns are the keys of the groups, one group behind the other.
void probabilities_over(const Context& context, const Tensor& query,
                        std::span<const KeyGroup> groups, std::span<const Index> heads,
                        const TakeProbabilities& take);

/// Columns of a matrix in fp32, [n, count].
Tensor columns_of(const Tensor& matrix, Index first, Index count);

}  // namespace longformer::ops
