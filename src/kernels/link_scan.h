// Two loops of the search for links (link_search.h).
#pragma once

#include <span>
#include <vector>

#include "core/tensor.h"

namespace longformer::kernels {

/// The dot product of two rows, summed in the order of the machine's vectors.
float row_product(std::span<const float> a, std::span<const float> b);

/// Brings a row of a matrix into the cache.
void prefetch_row(const Tensor& matrix, Index row);

/// Appends the places of the values that are not at most `limit`, which NaN is not either.
void places_above(std::span<const float> values, float limit, std::vector<Index>& places);

}  // namespace longformer::kernels
