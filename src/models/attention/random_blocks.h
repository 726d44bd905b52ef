// The blocks that BigBird's heads draw while training, as `transformers` and numpy draw them
// (docs/spec/other-attentions.md#h1).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention/spec.h"

namespace longformer::models {

struct RandomBlockPlan {
  /// Tokens of a block, blocks that each block of queries draws, heads.
  Index block = 64, count = 3, heads = 0;
  /// max_position_embeddings, whose plan texts of 1,024, 3,072 and 4,096 tokens follow.
  Index longest = 4096;
  /// The number of the layer.
  std::uint32_t seed = 0;
};

/// For each head the blocks 1 … blocks − 2 of queries with `count` blocks of keys each,
/// [heads, blocks − 2, count], in a text of so many blocks. Throws Error for plans with too few
/// blocks to draw from.
std::vector<Index> random_blocks(const RandomBlockPlan& plan, Index blocks);

}  // namespace longformer::models
