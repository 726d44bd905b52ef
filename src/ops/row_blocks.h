// How ops cut the rows of a document into blocks, so that wide intermediates stay in the cache.
#pragma once

#include <vector>

#include "core/dtype.h"

namespace longformer::ops {

struct RowBlock {
  Index begin = 0;
  Index rows = 0;
};

/// Blocks of at most kRowBlock rows that load `threads` threads evenly. Sizes are multiples of 16
/// except for one of less than 16 at the end, so that few different products are ever compiled.
std::vector<RowBlock> row_blocks(Index rows, int threads);

}  // namespace longformer::ops
