// Documents of different lengths behind each other: what a forward pass gets.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/attention/spec.h"

namespace longformer::models {

/// One element per token of all documents. Every id, type and position is a row of its table.
struct Batch {
  std::vector<std::int32_t> ids, types, positions;
  /// First row of each document, and the number of rows at the end.
  std::vector<Index> starts;
  /// 1 visible, 0 masked; empty when nothing is masked.
  std::vector<std::uint8_t> mask;
  /// Rows of global tokens, ascending, none of them masked.
  std::vector<Index> global_rows;

  Index rows() const { return static_cast<Index>(ids.size()); }
  Index documents() const { return static_cast<Index>(starts.size()) - 1; }
};

/// What the layers of a pass share of their attention; backward passes keep it.
using SharedRows = std::shared_ptr<const kernels::AttentionRows>;

}  // namespace longformer::models
