// Tensors that several processes hold.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "longformer/ranks.h"

namespace longformer {

/// Replaces every element of a fp32 tensor by its sum over all ranks.
void sum_over(const Ranks& ranks, Tensor& values);

/// A hash of the elements of a fp32 tensor; what follows `before` goes on with its hash.
std::uint64_t hash_of(const Tensor& values, std::uint64_t before);

}  // namespace longformer
