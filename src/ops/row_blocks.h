// How ops cut the rows of a document into blocks, so that wide intermediates stay in the cache.
#pragma once

#include <vector>

#include "core/dtype.h"

namespace longformer::ops {

struct RowBlock {
  Index begin = 0;
  Index rows = 0;
};

/// How the rows of one op are shared out.
struct RowPlan {
  std::vector<RowBlock> blocks;
  /// Few rows: every product spreads over all threads, block after block. Otherwise each block
  /// belongs to one thread.
  bool spread = false;
  /// Threads that take blocks.
  int workers = 1;

  Index count() const { return static_cast<Index>(blocks.size()); }
  /// Rows of the largest block.
  Index largest() const;
};

/// Blocks of at most kRowBlock rows that load `threads` threads evenly. Sizes are multiples of 16
/// except for one of less than 16 at the end, so that few different products are ever compiled.
RowPlan plan_rows(Index rows, int threads);

}  // namespace longformer::ops
