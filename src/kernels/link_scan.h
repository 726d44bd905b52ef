// Two loops of the search for links (link_search.h).
#pragma once

#include <span>
#include <vector>

#include "core/tensor.h"

namespace longformer::kernels {

/// Row i of a times row j of b, both fp32 or both bf16, summed in fp32 in the order of the
/// machine's vectors.
float row_product(const Tensor& a, Index i, const Tensor& b, Index j);

/// Brings a row of a matrix into the cache.
void prefetch_row(const Tensor& matrix, Index row);

/// Appends the places of the values that are not at most `limit`, which NaN is not either.
void places_above(std::span<const float> values, float limit, std::vector<Index>& places);

}  // namespace longformer::kernels
