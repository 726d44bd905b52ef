#include "attention/panel.h"

#include <algorithm>

namespace longformer::cli {

namespace {

/// Largest width of a global key, and what is between those and the window.
constexpr int kGlobalPixels = 6;
constexpr int kGlobalGap = 6;

}  // namespace

Cells pairs_of(const AttentionMap& map, int room, Reduction reduction) {
  const Axis axis(map.tokens(), room);
  Cells cells(axis, axis, reduction);
  for (std::int64_t query = 0; query < map.tokens(); ++query) {
    map.visit_keys(query, [&](std::int64_t key, float p) { cells.add(query, key, p); });
  }
  return cells;
}

DistancePanel::DistancePanel(const AttentionMap& map, Room room, Reduction reduction)
    : window(Axis(map.tokens(), room.rows), Axis(2 * map.reach() + 1, room.window), reduction),
      reach(map.reach()) {
  if (map.globals() > 0) {
    Axis columns(map.globals(), room.globals);
    columns.pixels = std::min(columns.pixels, kGlobalPixels);
    global_keys.emplace(window.rows(), columns, reduction);
  }
  for (std::int64_t i = 0; i < map.tokens(); ++i) {
    const std::span<const float> row = map.row(i);
    for (std::int64_t c = 0; c < map.values.columns; ++c) {
      const float p = row[static_cast<std::size_t>(c)];
      if (!(p > 0)) continue;
      if (c < map.globals()) {
        global_keys->add(i, c, p);
      } else {
        window.add(i, c - map.globals(), p);
      }
    }
  }
}

int DistancePanel::global_width() const {
  return global_keys ? global_keys->columns().length() + kGlobalGap : 0;
}

}  // namespace longformer::cli
