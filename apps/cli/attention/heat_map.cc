#include "attention/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "attention/panel.h"
#include "attention/ticks.h"
#include "output.h"

namespace longformer::cli {

namespace {

constexpr Color kFrame = {150, 150, 158};
constexpr int kTitleSize = 17;
constexpr int kLine = 20;
constexpr int kLargePanel = 1024;
constexpr int kWindowPanel = 520;
constexpr int kSmallPanel = 160;
/// Between small panels, and between large ones with what belongs to them.
constexpr int kSmallGap = 32;
constexpr int kLargeGap = 44;
/// Length of the mark of a global token.
constexpr int kMark = 10;
/// Tokens of more than a document of this many never have room for their names.
constexpr std::size_t kMostNames = 64;

/// What stands for a token on an axis: its text without spaces around, or its vocabulary entry
/// where nothing is left.
std::string token_name(const AttentionDocument& document, const std::vector<std::size_t>& starts,
                       std::size_t token) {
  constexpr std::string_view kSpaces = " \t\r\n\f\v";
  const Encoding& encoding = document.encoding;
  std::string name = document.tokens[token];
  if (encoding.special_tokens_mask[token] == 0) {
    const std::size_t begin = starts[static_cast<std::size_t>(encoding.offsets[token].begin)];
    const std::size_t end = starts[static_cast<std::size_t>(encoding.offsets[token].end)];
    const std::string_view text = std::string_view(document.source.text).substr(begin, end - begin);
    const std::size_t first = text.find_first_not_of(kSpaces);
    if (first != std::string_view::npos) {
      name = text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
    }
  }
  std::string visible;
  for (const char character : name) {
    const auto code = static_cast<unsigned char>(character);
    visible += code <= ' ' || code == 0x7F ? "␣" : std::string(1, character);
  }
  return visible;
}

TokenNames names_of(const AttentionDocument& document) {
  TokenNames names{.labels = {}, .globals = document.global_positions};
  if (document.tokens.size() > kMostNames) return names;
  const std::vector<std::size_t> starts = character_starts(document.source.text);
  for (std::size_t i = 0; i < document.tokens.size(); ++i) {
    names.labels.push_back(token_name(document, starts, i));
  }
  return names;
}

void draw_text(Picture& picture, Point at, const std::string& text,
               const TextStyle& style = {kInk}) {
  picture.text(at, picture.typesetter().line(text, kTextSize), style);
}

void draw_cells(Picture& picture, Point corner, const Cells& cells) {
  picture.pixels(corner, cells.size(), [&cells] { return cells.pixels(); });
  picture.frame(corner, cells.size(), kFrame);
}

void draw_by_distance(Picture& picture, Point corner, const DistancePanel& panel) {
  if (panel.global_keys) draw_cells(picture, corner, *panel.global_keys);
  draw_cells(picture, {corner.x + panel.global_width(), corner.y}, panel.window);
}

Ticks distance_ticks(const Picture& picture, const DistancePanel& panel) {
  return Ticks::of_numbers(picture.typesetter(), panel.window.columns(), -panel.reach);
}

constexpr int kLegendBar = 22;
constexpr int kLegendHeight = 240;

/// One line of the legend: a box of a colour and what it means.
void draw_meaning(Picture& picture, Point corner, Color color, const std::string& meaning) {
  constexpr int kHeight = 14;
  picture.fill(corner, {kLegendBar, kHeight}, color);
  picture.frame(corner, {kLegendBar, kHeight}, kFrame);
  draw_text(picture, {corner.x + kLegendBar + kTick + kTickGap, corner.y + kHeight / 2}, meaning);
}

/// The colours with their probabilities, right of all that has been drawn.
void draw_legend(Picture& picture, bool marks) {
  const int left = picture.bounds().right + kLargeGap;
  draw_text(picture, {left, kTextSize / 2}, "probability");
  const Point corner{left, kLine + kTick};
  const Size bar{kLegendBar, kLegendHeight};
  picture.pixels(corner, bar, [bar] {
    Pixels pixels(bar);
    for (int y = 0; y < bar.height; ++y) {
      const double exponent = -static_cast<double>(kDecades * y) / (bar.height - 1);
      pixels.fill({0, y}, {bar.width, 1}, color_of(static_cast<float>(std::pow(10.0, exponent))));
    }
    return pixels;
  });
  picture.frame(corner, bar, kFrame);
  for (int decade = 0; decade <= kDecades; ++decade) {
    const int y = corner.y + decade * (bar.height - 1) / kDecades;
    const Point tick{corner.x + bar.width + 1, y};
    picture.fill(tick, {kTick, 1}, kInk);
    const std::string number = fmt::format("{:.{}f}", std::pow(10.0, -decade), decade);
    const std::string text = decade < kDecades ? number : "≤ " + number;
    draw_text(picture, {tick.x + kTick + kTickGap - 1, y}, text);
  }
  const int below = corner.y + bar.height + kLine;
  draw_meaning(picture, {left, below}, kNothing, "none");
  if (marks) draw_meaning(picture, {left, below + kLine + kTickGap}, kGlobal, "global token");
}

std::string number_text(const std::optional<std::int64_t>& number, const std::string& what) {
  return number ? fmt::format("{} {}", what, *number) : fmt::format("mean of {}s", what);
}

std::string cell_text(Reduction reduction, const Cells& cells) {
  const Axis &rows = cells.rows(), &columns = cells.columns();
  if (rows.block == 1 && columns.block == 1) return "one cell per pair of tokens";
  return fmt::format("a cell is the {} of {} × {} pairs",
                     reduction == Reduction::max ? "maximum" : "mean", rows.block, columns.block);
}

}  // namespace

struct HeatMap::Panels {
  Reduction reduction;
  std::int64_t tokens;
  TokenNames names;
  std::vector<std::optional<std::int64_t>> layers, heads;
  /// One for each map; the second kind, or both for a single map, where a window is shown.
  std::vector<Cells> pairs;
  std::vector<DistancePanel> distances;

  bool single() const { return layers.size() * heads.size() == 1; }
  void add(const AttentionMap& map);
  void draw_single(Picture& picture) const;
  void draw_grid(Picture& picture) const;

 private:
  std::string count_text() const;
  int draw_query_axis(Picture& picture, Point corner, const Axis& axis) const;
  void draw_title(Picture& picture, const std::string& title) const;
  void draw_pairs(Picture& picture) const;
  void draw_distances(Picture& picture) const;
  void draw_row(Picture& picture, std::size_t row, Size panel) const;
};

void HeatMap::Panels::add(const AttentionMap& map) {
  // A window that covers the document shows less by distance than pair by pair.
  const bool first = pairs.empty() && distances.empty();
  const bool by_distance = first ? !map.dense && tokens > 2 * map.reach() : !distances.empty();
  if (single() || !by_distance) {
    pairs.push_back(pairs_of(map, single() ? kLargePanel : kSmallPanel, reduction));
  }
  if (!by_distance) return;
  const Room room =
      single() ? Room{kLargePanel, kWindowPanel, 128} : Room{kSmallPanel, kSmallPanel, 24};
  distances.emplace_back(map, room, reduction);
}

std::string HeatMap::Panels::count_text() const {
  return fmt::format("{}, {} global", counted(tokens, "token"),
                     grouped(static_cast<std::int64_t>(names.globals.size())));
}

/// Above all that has been drawn.
void HeatMap::Panels::draw_title(Picture& picture, const std::string& title) const {
  const Bounds& bounds = picture.bounds();
  picture.text({bounds.left, bounds.top - kLine}, picture.typesetter().line(title, kTitleSize),
               {kInk});
}

/// The tokens left of a panel under a name that reads upwards; pixels that this takes.
int HeatMap::Panels::draw_query_axis(Picture& picture, Point corner, const Axis& axis) const {
  const Ticks ticks = Ticks::of_tokens(picture.typesetter(), axis, names);
  ticks.draw_left(picture, corner);
  draw_text(picture, {corner.x - ticks.width() - kLine, corner.y + axis.length() / 2},
            "query token", {.color = kInk, .before = 0.5, .upwards = true});
  return ticks.width() + kLine + kTextSize;
}

/// All pairs of tokens, and marks where the global tokens are.
void HeatMap::Panels::draw_pairs(Picture& picture) const {
  const Cells& cells = pairs.front();
  const int length = cells.rows().length();
  draw_cells(picture, {}, cells);
  const Ticks keys = Ticks::of_tokens(picture.typesetter(), cells.columns(), names);
  keys.draw_above(picture, {});
  draw_text(picture, {length / 2, -keys.height() - kLine}, "key token",
            {.color = kInk, .before = 0.5});
  draw_query_axis(picture, {}, cells.rows());
  for (const std::int64_t token : names.globals) {
    const int at = cells.rows().middle(token) - 1;
    picture.fill({at, length + 2}, {3, kMark}, kGlobal);
    picture.fill({length + 2, at}, {kMark, 3}, kGlobal);
  }
  draw_text(picture, {0, length + kMark + kLine}, cell_text(reduction, cells));
}

/// The window by distance, right of all that has been drawn.
void HeatMap::Panels::draw_distances(Picture& picture) const {
  const DistancePanel& panel = distances.front();
  const Axis& rows = panel.window.rows();
  const int axis_width = Ticks::of_tokens(picture.typesetter(), rows, names).width() + kLine;
  const Point corner{picture.bounds().right + kLargeGap + axis_width, 0};
  draw_by_distance(picture, corner, panel);
  draw_query_axis(picture, corner, rows);
  const Point window{corner.x + panel.global_width(), 0};
  const Ticks ticks = distance_ticks(picture, panel);
  ticks.draw_above(picture, window);
  draw_text(picture, {corner.x, -ticks.height() - kLine},
            panel.global_keys ? "global keys, then key − query" : "key − query");
  draw_text(picture, {corner.x, rows.length() + kMark + kLine}, cell_text(reduction, panel.window));
}

void HeatMap::Panels::draw_single(Picture& picture) const {
  draw_pairs(picture);
  if (!distances.empty()) draw_distances(picture);
  draw_legend(picture, !names.globals.empty());
  draw_title(picture, fmt::format("{}, {}: {}", number_text(layers[0], "layer"),
                                  number_text(heads[0], "head"), count_text()));
}

/// The panels of one layer, each as large as `panel` or smaller.
void HeatMap::Panels::draw_row(Picture& picture, std::size_t row, Size panel) const {
  const int y = static_cast<int>(row) * (panel.height + kSmallGap);
  const std::size_t begin = row * heads.size();
  const Axis& tokens_axis =
      distances.empty() ? pairs[begin].rows() : distances[begin].window.rows();
  const Ticks tokens_ticks = Ticks::of_tokens(picture.typesetter(), tokens_axis, names);
  tokens_ticks.draw_left(picture, {0, y});
  draw_text(picture, {-tokens_ticks.width() - kSmallGap / 2, y + tokens_axis.length() / 2},
            "layer " + name_of(layers[row]), {.color = kInk, .before = 1});
  for (std::size_t column = 0; column < heads.size(); ++column) {
    const int x = static_cast<int>(column) * (panel.width + kSmallGap);
    const std::size_t at = begin + column;
    if (distances.empty()) {
      draw_cells(picture, {x, y}, pairs[at]);
      if (row == 0) tokens_ticks.draw_above(picture, {x, y});
      continue;
    }
    // Layers may have windows of their own.
    draw_by_distance(picture, {x, y}, distances[at]);
    if (row > 0 && distances[at].reach == distances[at - heads.size()].reach) continue;
    distance_ticks(picture, distances[at])
        .draw_above(picture, {x + distances[at].global_width(), y});
  }
}

void HeatMap::Panels::draw_grid(Picture& picture) const {
  Size panel = distances.empty() ? pairs.front().size() : Size{0, distances.front().height()};
  for (const DistancePanel& each : distances) panel.width = std::max(panel.width, each.width());
  for (std::size_t row = 0; row < layers.size(); ++row) draw_row(picture, row, panel);
  const int names_at = picture.bounds().top - kTextSize;
  for (std::size_t column = 0; column < heads.size(); ++column) {
    const int x = static_cast<int>(column) * (panel.width + kSmallGap);
    draw_text(picture, {x + panel.width / 2, names_at}, "head " + name_of(heads[column]),
              {.color = kInk, .before = 0.5});
  }
  const Cells& cells = distances.empty() ? pairs.front() : distances.front().window;
  draw_legend(picture, false);
  const std::string columns = distances.empty()               ? "key token"
                              : distances.front().global_keys ? "global keys, then key − query"
                                                              : "key − query";
  draw_text(picture, {picture.bounds().left, picture.bounds().top - kLine},
            fmt::format("down: query token; right: {}; {}", columns, cell_text(reduction, cells)));
  draw_title(picture, count_text());
}

HeatMap::HeatMap(const AttentionDocument& document, Reduction reduction)
    : panels_(std::make_unique<Panels>(
          Panels{.reduction = reduction,
                 .tokens = static_cast<std::int64_t>(document.encoding.ids.size()),
                 .names = names_of(document),
                 .layers = document.layers,
                 .heads = document.heads,
                 .pairs = {},
                 .distances = {}})) {}

HeatMap::~HeatMap() = default;

void HeatMap::add(const AttentionMap& map) { panels_->add(map); }

std::string HeatMap::file(PictureFormat format) const {
  return picture_file(format, [this](Picture& picture) {
    panels_->single() ? panels_->draw_single(picture) : panels_->draw_grid(picture);
  });
}

}  // namespace longformer::cli
