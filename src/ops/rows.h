// Moving whole rows of a table, whatever their dtype.
#pragma once

#include "core/tensor.h"

namespace longformer::ops {

/// A table of other length: how many rows are reserved at the start of source and target, and how
/// many rows follow the reserved ones in the target.
struct RowTiling {
  Index source_reserved = 0;
  Index target_reserved = 0;
  Index count = 0;
};

/// [P, D] to [target_reserved + count, D] of the same dtype: row target_reserved + t is row
/// source_reserved + (t mod (P − source_reserved)). Reserved rows that both tables have are copied,
/// the others are zero. Needs P > source_reserved.
Tensor tile_rows(const Tensor& table, const RowTiling& tiling);

}  // namespace longformer::ops
