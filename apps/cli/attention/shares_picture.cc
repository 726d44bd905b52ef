#include "attention/shares_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "flags.h"
#include "output.h"

namespace longformer::cli {

namespace {

constexpr Color kBarInk{40, 40, 40}, kBarFrame{190, 190, 190}, kBarPaper{255, 255, 255};
constexpr int kLabelSize = 13;
constexpr std::size_t kKinds = 3, kAges = 6;
/// Compressed rows, the memory, the segment.
constexpr std::array<Color, kKinds> kKindColors = {Color{213, 94, 0}, Color{0, 114, 178},
                                                   Color{0, 158, 115}};
constexpr std::array<const char*, kKinds> kKindNames = {"compressed", "memory", "segment"};
constexpr std::array<const char*, kKinds> kKindMetrics = {"cm", "em", "seq"};

struct BarSize {
  int bar, gap, height;
};
constexpr BarSize kLargeBars{24, 4, 220}, kSmallBars{9, 1, 90};
constexpr int kPanelsInRow = 4, kPanelGap = 40, kLabelLine = 20;

using Bars = std::array<std::array<double, kAges>, kKinds>;

Bars bars_of(const AttentionShares& shares) {
  return {shares.compressed, shares.memory, shares.segment};
}

Bars mean_bars(std::span<const AttentionShares> layers) {
  Bars mean = {};
  for (const AttentionShares& layer : layers) {
    const Bars bars = bars_of(layer);
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      for (std::size_t age = 0; age < kAges; ++age) {
        mean[kind][age] += bars[kind][age] / static_cast<double>(layers.size());
      }
    }
  }
  return mean;
}

double sum_of(const std::array<double, kAges>& ages) {
  double sum = 0;
  for (const double share : ages) sum += share;
  return sum;
}

void draw_label(Picture& picture, Point at, const std::string& text, const TextStyle& style) {
  picture.text(at, picture.typesetter().line(text, kLabelSize), style);
}

int width_of(const BarSize& size) {
  return static_cast<int>(kKinds * kAges) * (size.bar + size.gap) +
         static_cast<int>(kKinds - 1) * size.bar;
}

/// Bars of one panel, each as high as its share of the largest of all panels.
void draw_bars(Picture& picture, Point corner, const Bars& bars, double largest,
               const BarSize& size) {
  picture.fill(corner, {width_of(size), size.height}, kBarPaper);
  int x = corner.x;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    for (const double share : bars[kind]) {
      const int height = static_cast<int>(std::lround(share / largest * size.height));
      picture.fill({x, corner.y + size.height - height}, {size.bar, height}, kKindColors[kind]);
      x += size.bar + size.gap;
    }
    x += size.bar;
  }
  picture.fill({corner.x, corner.y + size.height}, {width_of(size), 1}, kBarInk);
}

/// Kind and sum below each third of a large panel.
void draw_sums(Picture& picture, Point corner, const Bars& bars, const BarSize& size) {
  const int third = static_cast<int>(kAges) * (size.bar + size.gap);
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    const int middle = corner.x + static_cast<int>(kind) * (third + size.bar) + third / 2;
    draw_label(picture, {middle, corner.y + size.height + kLabelLine},
               fmt::format("{} {:.1f} %", kKindNames[kind], 100 * sum_of(bars[kind])),
               {kBarInk, 0.5});
  }
  draw_label(picture, {corner.x, corner.y + size.height + 2 * kLabelLine},
             "each kind in six parts by age, the oldest left", {kBarInk});
}

double metric_of(const EvaluationPoint& point, const std::string& name) {
  const auto found = std::find_if(point.metrics.begin(), point.metrics.end(),
                                  [&](const auto& metric) { return metric.first == name; });
  return found == point.metrics.end() ? 0 : found->second;
}

/// A column for every evaluation, with what goes to the three kinds above each other.
void draw_training(Picture& picture, Point corner, std::span<const EvaluationPoint> points) {
  const int width = width_of(kLargeBars), height = kLargeBars.height;
  const auto count = static_cast<int>(points.size());
  for (int i = 0; i < count; ++i) {
    const int left = corner.x + i * width / count, right = corner.x + (i + 1) * width / count;
    int y = corner.y + height;
    double below = 0;
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      for (std::size_t age = 0; age < kAges; ++age) {
        below += metric_of(points[static_cast<std::size_t>(i)],
                           fmt::format("{}_p{}", kKindMetrics[kind], age));
      }
      const int top = corner.y + height - static_cast<int>(std::lround(below * height));
      picture.fill({left, top}, {right - left, y - top}, kKindColors[kind]);
      y = top;
    }
  }
  picture.frame(corner, {width, height}, kBarFrame);
  draw_label(
      picture, {corner.x, corner.y + height + kLabelLine},
      fmt::format("evaluations after {} to {} steps", points.front().step, points.back().step),
      {kBarInk});
}

std::vector<EvaluationPoint> with_shares(std::span<const EvaluationPoint> evaluations) {
  std::vector<EvaluationPoint> points;
  for (const EvaluationPoint& point : evaluations) {
    if (metric_of(point, "seq_p5") > 0) points.push_back(point);
  }
  return points;
}

}  // namespace

std::string shares_picture(PictureFormat format, std::span<const AttentionShares> layers,
                           std::span<const EvaluationPoint> evaluations) {
  const Bars mean = mean_bars(layers);
  double largest = 0;
  for (const auto& kind : mean) largest = std::max(largest, *std::ranges::max_element(kind));
  double largest_of_layers = 0;
  for (const AttentionShares& layer : layers) {
    for (const auto& kind : bars_of(layer)) {
      largest_of_layers = std::max(largest_of_layers, *std::ranges::max_element(kind));
    }
  }
  const std::vector<EvaluationPoint> points = with_shares(evaluations);
  return picture_file(format, [&](Picture& picture) {
    Point corner{0, 0};
    draw_label(picture, {0, 0},
               fmt::format("where attention goes: mean of {} layers, highest bar {:.1f} %",
                           layers.size(), 100 * largest),
               {kBarInk});
    corner.y += kLabelLine;
    draw_bars(picture, corner, mean, largest, kLargeBars);
    draw_sums(picture, corner, mean, kLargeBars);
    if (!points.empty()) {
      draw_training(picture, {corner.x + width_of(kLargeBars) + kPanelGap, corner.y}, points);
    }
    corner.y += kLargeBars.height + 4 * kLabelLine;
    draw_label(picture, corner,
               fmt::format("layers, highest bar {:.1f} %", 100 * largest_of_layers), {kBarInk});
    corner.y += 2 * kLabelLine;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      const int column = static_cast<int>(layer) % kPanelsInRow;
      const int row = static_cast<int>(layer) / kPanelsInRow;
      const Point place{corner.x + column * (width_of(kSmallBars) + kPanelGap),
                        corner.y + row * (kSmallBars.height + 2 * kLabelLine)};
      draw_label(picture, {place.x, place.y - kLabelLine / 2}, fmt::format("layer {}", layer),
                 {kBarInk});
      draw_bars(picture, place, bars_of(layers[layer]), largest_of_layers, kSmallBars);
    }
  });
}

std::vector<AttentionShares> last_shares(std::span<const EvaluationPoint> evaluations) {
  const std::vector<EvaluationPoint> points = with_shares(evaluations);
  std::vector<AttentionShares> layers;
  if (points.empty()) return layers;
  const auto metric = [&](const char* kind, std::size_t age) {
    return metric_of(points.back(), fmt::format("layer_{}_{}_p{}", layers.size(), kind, age));
  };
  while (metric("seq", kAges - 1) > 0) {
    AttentionShares shares;
    for (std::size_t age = 0; age < kAges; ++age) {
      shares.compressed[age] = metric("cm", age);
      shares.memory[age] = metric("em", age);
      shares.segment[age] = metric("seq", age);
    }
    layers.push_back(shares);
  }
  return layers;
}

PictureFormat picture_format_of(const std::string& file) {
  const std::string ending = file.substr(std::min(file.size(), file.rfind('.')));
  if (ending == ".png") return PictureFormat::png;
  if (ending == ".svg") return PictureFormat::svg;
  if (ending == ".pdf") return PictureFormat::pdf;
  throw UsageError(
      "--shares-picture",
      fmt::format("expected a name that ends in .png, .svg or .pdf, found {}", in_quotes(file)));
}

}  // namespace longformer::cli
