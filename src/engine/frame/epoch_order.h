// In which order a training sees its examples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.h"

namespace longformer::engine {

/// A permutation of 0 … count − 1 that depends on the seed alone.
std::vector<Index> shuffled(Index count, std::uint64_t seed);

/// Order in which examples of similar length come together: within groups of 50 batches the longest
/// first, as the Hugging Face Trainer groups them; the longest of all begins.
std::vector<Index> shuffled_by_length(std::span<const Index> lengths, Index batch,
                                      std::uint64_t seed);

}  // namespace longformer::engine
