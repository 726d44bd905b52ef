// One map of attention as cells: all pairs of tokens, or its window by distance.
#pragma once

#include <optional>

#include "attention/cells.h"
#include "attention/maps.h"

namespace longformer::cli {

/// Pixels for the rows, the window and the global keys of a panel by distance.
struct Room {
  int rows, window, globals;
};

Cells pairs_of(const AttentionMap& map, int room, Reduction reduction);

/// Every token is a row: its global keys, then the keys of its window by their distance.
struct DistancePanel {
  Cells window;
  std::optional<Cells> global_keys;
  /// Tokens to each side.
  std::int64_t reach = 0;

  DistancePanel(const AttentionMap& map, Room room, Reduction reduction);

  int height() const { return window.rows().length(); }
  /// Where the window begins.
  int global_width() const;
  int width() const { return global_width() + window.columns().length(); }
};

}  // namespace longformer::cli
