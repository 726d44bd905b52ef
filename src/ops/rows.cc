#include "ops/rows.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace longformer::ops {

Tensor tile_rows(const Tensor& table, const RowTiling& tiling) {
  const Index period = table.rows() - tiling.source_reserved;
  assert(period > 0);
  const Index width = table.columns();
  Tensor result = Tensor::zeros({tiling.target_reserved + tiling.count, width}, table.dtype());
  const std::size_t row_bytes = static_cast<std::size_t>(width) * element_size(table.dtype());
  const auto* source = static_cast<const std::byte*>(table.raw());
  auto* target = static_cast<std::byte*>(result.raw());
  const auto copy = [&](Index to, Index from, Index rows) {
    std::memcpy(target + static_cast<std::size_t>(to) * row_bytes,
                source + static_cast<std::size_t>(from) * row_bytes,
                static_cast<std::size_t>(rows) * row_bytes);
  };
  copy(0, 0, std::min(tiling.source_reserved, tiling.target_reserved));
  for (Index t = 0; t < tiling.count; t += period) {
    copy(tiling.target_reserved + t, tiling.source_reserved, std::min(period, tiling.count - t));
  }
  return result;
}

}  // namespace longformer::ops
