#include "heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "canvas.h"
#include "output.h"
#include "pixel_text.h"

namespace longformer::cli {

namespace {

constexpr Color kBackground = {255, 255, 255};
constexpr Color kInk = {40, 40, 48};
constexpr Color kFrame = {150, 150, 158};
/// Marks beside global tokens.
constexpr Color kGlobal = {37, 99, 235};
/// Pairs without any attention, most of them outside of every window.
constexpr Color kNothing = {238, 240, 243};
/// From the smallest probability that is told apart to 1, in equal steps of its logarithm.
constexpr std::array kScale = std::to_array<Color>(
    {{255, 247, 205}, {254, 216, 118}, {252, 141, 60}, {214, 41, 37}, {62, 8, 74}});
constexpr double kDecades = 4;

constexpr int kText = 2;
constexpr int kLine = (kGlyphHeight + 3) * kText;
constexpr int kMargin = 24;
/// Room for the numbers left of a panel.
constexpr int kNumbers = 7 * kGlyphAdvance * kText;
constexpr int kTick = 6;
constexpr int kLargePanel = 1024;
constexpr int kWindowPanel = 520;
constexpr int kSmallPanel = 150;
constexpr int kGap = 14;
/// Width of a global key, and what is between those and the window.
constexpr int kGlobalPixels = 6;
constexpr int kGlobalGap = 6;
/// Length of the mark of a global token.
constexpr int kMark = 10;
/// Largest square that stands for one cell.
constexpr int kMostPixels = 24;

Color color_of(float probability) {
  if (!(probability > 0)) return kNothing;
  const double place = 1 + std::log10(static_cast<double>(probability)) / kDecades;
  const double at = std::clamp(place, 0.0, 1.0) * static_cast<double>(kScale.size() - 1);
  const auto low = std::min(static_cast<std::size_t>(at), kScale.size() - 2);
  const double share = at - static_cast<double>(low);
  const auto mix = [share](std::uint8_t a, std::uint8_t b) {
    return static_cast<std::uint8_t>(std::lround(a + share * (b - a)));
  };
  const Color &a = kScale[low], &b = kScale[low + 1];
  return {mix(a.red, b.red), mix(a.green, b.green), mix(a.blue, b.blue)};
}

/// How `count` places fit into some pixels: `block` places share a cell of `pixels` pixels.
struct Axis {
  std::int64_t count = 0;
  std::int64_t block = 1;
  int pixels = 1;

  Axis(std::int64_t places, int room) : count(places) {
    block = std::max<std::int64_t>((count + room - 1) / room, 1);
    pixels = static_cast<int>(std::clamp<std::int64_t>(room / cells(), 1, kMostPixels));
  }
  std::int64_t cells() const { return std::max<std::int64_t>((count + block - 1) / block, 1); }
  int length() const { return static_cast<int>(cells()) * pixels; }
  /// Pixel in the middle of a place.
  int middle(std::int64_t place) const {
    return static_cast<int>(place / block) * pixels + pixels / 2;
  }
  /// Places that share the cell of one place.
  std::int64_t share(std::int64_t cell) const { return std::min(block, count - cell * block); }
};

/// Probabilities of pairs of tokens, gathered in cells.
class Cells {
 public:
  Cells(Axis rows, Axis columns, Reduction reduction)
      : rows_(rows),
        columns_(columns),
        reduction_(reduction),
        values_(static_cast<std::size_t>(rows.cells() * columns.cells())) {}

  const Axis& rows() const { return rows_; }
  const Axis& columns() const { return columns_; }

  void add(std::int64_t row, std::int64_t column, float probability) {
    const std::int64_t r = row / rows_.block;
    const std::int64_t c = column / columns_.block;
    float& value = values_[static_cast<std::size_t>(r * columns_.cells() + c)];
    if (reduction_ == Reduction::max) {
      value = std::max(value, probability);
    } else {
      value += probability / static_cast<float>(rows_.share(r) * columns_.share(c));
    }
  }

  void draw(Canvas& canvas, Point corner) const {
    for (std::int64_t r = 0; r < rows_.cells(); ++r) {
      for (std::int64_t c = 0; c < columns_.cells(); ++c) {
        const float value = values_[static_cast<std::size_t>(r * columns_.cells() + c)];
        canvas.fill({corner.x + static_cast<int>(c) * columns_.pixels,
                     corner.y + static_cast<int>(r) * rows_.pixels},
                    {columns_.pixels, rows_.pixels}, color_of(value));
      }
    }
  }

 private:
  Axis rows_, columns_;
  Reduction reduction_;
  std::vector<float> values_;
};

/// 1, 2 or 5 times a power of ten, so that about eight of them span the places.
std::int64_t tick_step(std::int64_t span) {
  std::int64_t step = 1;
  while (true) {
    for (const std::int64_t factor : {1, 2, 5}) {
      if (factor * step * 8 >= span) return factor * step;
    }
    step *= 10;
  }
}

void frame(Canvas& canvas, Point corner, Size size) {
  canvas.fill({corner.x - 1, corner.y - 1}, {size.width + 2, 1}, kFrame);
  canvas.fill({corner.x - 1, corner.y + size.height}, {size.width + 2, 1}, kFrame);
  canvas.fill({corner.x - 1, corner.y}, {1, size.height}, kFrame);
  canvas.fill({corner.x + size.width, corner.y}, {1, size.height}, kFrame);
}

/// Numbers above a panel whose first place has the number `first`.
void draw_top_axis(Canvas& canvas, Point corner, const Axis& axis, std::int64_t first) {
  const std::int64_t step = tick_step(axis.count);
  int free_from = corner.x - kNumbers;
  for (std::int64_t number = -((-first) / step) * step; number < first + axis.count;
       number += step) {
    if (number < first) continue;
    const int x = corner.x + axis.middle(number - first);
    canvas.fill({x, corner.y - kTick - 1}, {1, kTick}, kInk);
    const std::string text = grouped(number);
    const int left = x - text_width(text, kText) / 2;
    if (left < free_from) continue;
    draw_text(canvas, {left, corner.y - kTick - kLine}, text, kText, kInk);
    free_from = left + text_width(text, kText) + 2 * kGlyphAdvance;
  }
}

void draw_left_axis(Canvas& canvas, Point corner, const Axis& axis) {
  const std::int64_t step = tick_step(axis.count);
  for (std::int64_t number = 0; number < axis.count; number += step) {
    const int y = corner.y + axis.middle(number);
    canvas.fill({corner.x - kTick - 1, y}, {kTick, 1}, kInk);
    const std::string text = grouped(number);
    draw_text(canvas,
              {corner.x - kTick - 6 - text_width(text, kText), y - kGlyphHeight * kText / 2 + 2},
              text, kText, kInk);
  }
}

constexpr int kLegendBar = 22;
constexpr int kLegendHeight = 340;
constexpr std::string_view kLegendTitle = "probability";

int legend_width() { return text_width(kLegendTitle, kText); }

/// One line of the legend: a box of a colour and what it means.
void draw_meaning(Canvas& canvas, Point corner, Color color, const std::string& meaning) {
  const int height = 7 * kText;
  canvas.fill(corner, {kLegendBar, height}, color);
  frame(canvas, corner, {kLegendBar, height});
  draw_text(canvas, {corner.x + kLegendBar + kTick + 6, corner.y}, meaning, kText, kInk);
}

/// The colours with their probabilities, kLegendHeight tall.
void draw_legend(Canvas& canvas, Point corner, bool marks) {
  draw_text(canvas, {corner.x, corner.y - kTick - kLine}, kLegendTitle, kText, kInk);
  const int bar = kLegendHeight - 3 * kLine;
  for (int y = 0; y < bar; ++y) {
    const double exponent = -kDecades * y / (bar - 1);
    canvas.fill({corner.x, corner.y + y}, {kLegendBar, 1},
                color_of(static_cast<float>(std::pow(10.0, exponent))));
  }
  frame(canvas, corner, {kLegendBar, bar});
  for (int decade = 0; decade <= static_cast<int>(kDecades); ++decade) {
    const int y = corner.y + decade * (bar - 1) / static_cast<int>(kDecades);
    canvas.fill({corner.x + kLegendBar + 1, y}, {kTick, 1}, kInk);
    const std::string text =
        decade == 0 ? "1"
                    : fmt::format("0.{}1", std::string(static_cast<std::size_t>(decade - 1), '0'));
    draw_text(canvas, {corner.x + kLegendBar + kTick + 6, y - 7 * kText / 2}, text, kText, kInk);
  }
  draw_meaning(canvas, {corner.x, corner.y + bar + kLine}, kNothing, "none");
  if (marks) draw_meaning(canvas, {corner.x, corner.y + bar + 2 * kLine}, kGlobal, "global");
}

std::string number_text(const std::optional<std::int64_t>& number, const std::string& what) {
  return number ? fmt::format("{} {}", what, *number) : fmt::format("mean of {}s", what);
}

std::string cell_text(Reduction reduction, const Axis& rows, const Axis& columns) {
  if (rows.block == 1 && columns.block == 1) return "one cell per pair of tokens";
  return fmt::format("a cell is the {} of {} x {} pairs",
                     reduction == Reduction::max ? "maximum" : "mean", rows.block, columns.block);
}

}  // namespace

namespace {

/// One map: all pairs of tokens; or its window by distance, with the global keys before it.
struct Panel {
  std::optional<Cells> pairs, global_keys, window;
  std::int64_t reach = 0;

  int global_width() const {
    return global_keys ? global_keys->columns().length() + kGlobalGap : 0;
  }
  int by_distance_width() const { return global_width() + window->columns().length(); }
  void draw_by_distance(Canvas& canvas, Point corner) const;
};

void Panel::draw_by_distance(Canvas& canvas, Point corner) const {
  const int height = window->rows().length();
  if (global_keys) {
    global_keys->draw(canvas, corner);
    frame(canvas, corner, {global_keys->columns().length(), height});
    corner.x += global_width();
  }
  window->draw(canvas, corner);
  frame(canvas, corner, {window->columns().length(), height});
}

Cells pairs_of(const AttentionMap& map, Axis axis, Reduction reduction) {
  Cells cells(axis, axis, reduction);
  for (std::int64_t query = 0; query < map.tokens(); ++query) {
    map.visit_keys(query, [&](std::int64_t key, float p) { cells.add(query, key, p); });
  }
  return cells;
}

/// Pixels for the rows, the window and the global keys of a panel.
struct Room {
  int rows, window, globals;
};

void add_by_distance(Panel& panel, const AttentionMap& map, Room room, Reduction reduction) {
  const Axis rows(map.tokens(), room.rows);
  panel.reach = map.reach();
  panel.window.emplace(rows, Axis(2 * panel.reach + 1, room.window), reduction);
  if (map.globals() > 0) {
    Axis columns(map.globals(), room.globals);
    columns.pixels = std::min(columns.pixels, kGlobalPixels);
    panel.global_keys.emplace(rows, columns, reduction);
  }
  for (std::int64_t i = 0; i < map.tokens(); ++i) {
    const std::span<const float> row = map.row(i);
    for (std::int64_t c = 0; c < map.values.columns; ++c) {
      const float p = row[static_cast<std::size_t>(c)];
      if (!(p > 0)) continue;
      if (c < map.globals()) {
        panel.global_keys->add(i, c, p);
      } else {
        panel.window->add(i, c - map.globals(), p);
      }
    }
  }
}

}  // namespace

struct HeatMap::Panels {
  Reduction reduction;
  std::int64_t tokens;
  std::vector<std::int64_t> globals;
  std::vector<std::optional<std::int64_t>> layers, heads;
  /// One for each map.
  std::vector<Panel> panels;
  bool by_distance = false;

  bool single() const { return layers.size() * heads.size() == 1; }
  void add(const AttentionMap& map);
  std::string draw_single() const;
  std::string draw_grid() const;
  void draw_pairs(Canvas& canvas, Point corner) const;
};

void HeatMap::Panels::add(const AttentionMap& map) {
  Panel& panel = panels.emplace_back();
  const int side = single() ? kLargePanel : kSmallPanel;
  // A window that covers the document shows less by distance than pair by pair.
  if (panels.size() == 1) by_distance = !map.dense && tokens > 2 * map.reach();
  if (single() || !by_distance) panel.pairs = pairs_of(map, Axis(tokens, side), reduction);
  if (!by_distance) return;
  add_by_distance(
      panel, map,
      single() ? Room{kLargePanel, kWindowPanel, 128} : Room{kSmallPanel, kSmallPanel, 24},
      reduction);
}

/// All pairs of tokens with axes, and marks where the global tokens are.
void HeatMap::Panels::draw_pairs(Canvas& canvas, Point corner) const {
  const Cells& pairs = *panels.front().pairs;
  const int length = pairs.rows().length();
  pairs.draw(canvas, corner);
  frame(canvas, corner, {length, length});
  draw_top_axis(canvas, corner, pairs.columns(), 0);
  draw_left_axis(canvas, corner, pairs.rows());
  for (const std::int64_t token : globals) {
    const int at = pairs.rows().middle(token) - 1;
    canvas.fill({corner.x + at, corner.y + length + 2}, {3, kMark}, kGlobal);
    canvas.fill({corner.x + length + 2, corner.y + at}, {kMark, 3}, kGlobal);
  }
}

std::string HeatMap::Panels::draw_single() const {
  const Panel& panel = panels.front();
  const int side = panel.pairs->rows().length();
  const int top = kMargin + 4 * kLine;
  const int left = kMargin + kNumbers;
  const int second = left + side + kNumbers + kMargin;
  const int end = panel.window ? second + panel.by_distance_width() : left + side + kMark;
  const int legend = end + 2 * kMargin;
  const std::string title =
      fmt::format("{}, {}: {} tokens, {} global", number_text(layers[0], "layer"),
                  number_text(heads[0], "head"), grouped(tokens),
                  grouped(static_cast<std::int64_t>(globals.size())));
  const int height = std::max(side, kLegendHeight);
  Canvas canvas({std::max(legend + legend_width(), kMargin + text_width(title, kText)) + kMargin,
                 top + height + 2 * kLine + kMargin},
                kBackground);
  draw_text(canvas, {kMargin, kMargin}, title, kText, kInk);
  const int names = top - kTick - 2 * kLine;
  const int notes = top + side + kMark + kLine / 2;
  const auto note = [&](int x, const Cells& cells) {
    draw_text(canvas, {x, notes}, cell_text(reduction, cells.rows(), cells.columns()), kText, kInk);
  };
  draw_text(canvas, {left, names}, "key token (down: query token)", kText, kInk);
  draw_pairs(canvas, {left, top});
  note(left, *panel.pairs);
  if (panel.window) {
    panel.draw_by_distance(canvas, {second, top});
    draw_left_axis(canvas, {second, top}, panel.window->rows());
    const Point window = {second + panel.global_width(), top};
    draw_top_axis(canvas, window, panel.window->columns(), -panel.reach);
    const std::string text = panel.global_keys ? "global keys, then key - query" : "key - query";
    draw_text(canvas, {second, names}, text, kText, kInk);
    note(window.x, *panel.window);
  }
  draw_legend(canvas, {legend, top}, !globals.empty());
  return canvas.png();
}

std::string HeatMap::Panels::draw_grid() const {
  const Panel& first = panels.front();
  const int height = by_distance ? first.window->rows().length() : first.pairs->rows().length();
  // Layers may have windows of their own.
  int side = height;
  for (const Panel& panel : panels) {
    if (panel.window) side = std::max(side, panel.by_distance_width());
  }
  const int left = kMargin + text_width("layer mean", kText) + kGap;
  const int top = kMargin + 4 * kLine;
  const auto columns = static_cast<int>(heads.size());
  const auto rows = static_cast<int>(layers.size());
  const int right = left + columns * (side + kGap);
  const int bottom = top + std::max(rows * (height + kGap), kLegendHeight);
  const std::string title = fmt::format("{} tokens, {} global", grouped(tokens),
                                        grouped(static_cast<std::int64_t>(globals.size())));
  const std::string what =
      by_distance
          ? "down: query token, right: global keys, then key - query from left to right end "
            "of the window"
          : "down: query token, right: key token";
  const int text = std::max(text_width(what, kText), text_width(title, kText));
  Canvas canvas(
      {std::max(right + kMargin + legend_width(), kMargin + text) + kMargin, bottom + kMargin},
      kBackground);
  draw_text(canvas, {kMargin, kMargin}, title, kText, kInk);
  draw_text(canvas, {kMargin, kMargin + kLine}, what, kText, kInk);
  for (int c = 0; c < columns; ++c) {
    const std::string name = "head " + name_of(heads[static_cast<std::size_t>(c)]);
    draw_text(canvas, {left + c * (side + kGap), top - kLine}, name, kText, kInk);
  }
  for (int r = 0; r < rows; ++r) {
    const int y = top + r * (height + kGap);
    const std::string name = "layer " + name_of(layers[static_cast<std::size_t>(r)]);
    draw_text(canvas, {kMargin, y + height / 2 - kGlyphHeight}, name, kText, kInk);
    for (int c = 0; c < columns; ++c) {
      const Point at = {left + c * (side + kGap), y};
      const Panel& panel =
          panels[static_cast<std::size_t>(r) * heads.size() + static_cast<std::size_t>(c)];
      if (panel.window) {
        panel.draw_by_distance(canvas, at);
      } else {
        panel.pairs->draw(canvas, at);
        frame(canvas, at, {height, height});
      }
    }
  }
  draw_legend(canvas, {right + kMargin, top}, false);
  return canvas.png();
}

HeatMap::HeatMap(const AttentionDocument& document, Reduction reduction)
    : panels_(std::make_unique<Panels>(
          Panels{.reduction = reduction,
                 .tokens = static_cast<std::int64_t>(document.encoding.ids.size()),
                 .globals = document.global_positions,
                 .layers = document.layers,
                 .heads = document.heads,
                 .panels = {}})) {}

HeatMap::~HeatMap() = default;

void HeatMap::add(const AttentionMap& map) { panels_->add(map); }

std::string HeatMap::png() const {
  return panels_->single() ? panels_->draw_single() : panels_->draw_grid();
}

}  // namespace longformer::cli
