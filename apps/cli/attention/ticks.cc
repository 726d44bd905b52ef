#include "attention/ticks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "output.h"

namespace longformer::cli {

namespace {

/// Least distance of the middles of two lines below each other, and of the ends of two beside.
constexpr int kLine = 16;
constexpr int kBeside = 16;
/// The longest name of a token.
constexpr double kMostWidth = 110;

/// 1, 2 or 5 times a power of ten: places from tick to tick that are at least `pixels` apart.
std::int64_t tick_step(const Axis& axis, int pixels) {
  for (std::int64_t power = 1;; power *= 10) {
    for (const std::int64_t factor : {1, 2, 5}) {
      const std::int64_t step = factor * power;
      if (step * axis.pixels >= pixels * axis.block) return step;
    }
  }
}

}  // namespace

Ticks Ticks::of_tokens(const Typesetter& typesetter, const Axis& axis, const TokenNames& names) {
  if (axis.block > 1 || axis.pixels < kLine || names.labels.empty()) {
    return of_numbers(typesetter, axis, 0);
  }
  Ticks result;
  result.names_ = true;
  for (std::int64_t i = 0; i < axis.count; ++i) {
    const std::string& name = names.labels[static_cast<std::size_t>(i)];
    const bool global = std::binary_search(names.globals.begin(), names.globals.end(), i);
    result.ticks_.push_back({axis.middle(i), typesetter.line_within(name, kTextSize, kMostWidth),
                             global ? kGlobal : kInk});
  }
  return result;
}

Ticks Ticks::of_numbers(const Typesetter& typesetter, const Axis& axis, std::int64_t first) {
  const std::int64_t last = first + axis.count - 1;
  double widest = 0;
  for (const std::int64_t end : {first, last}) {
    widest = std::max(widest, typesetter.line(grouped(end), kTextSize).width);
  }
  const std::int64_t step = tick_step(axis, static_cast<int>(std::ceil(widest)) + kBeside);
  Ticks result;
  for (std::int64_t number = first / step * step; number <= last; number += step) {
    result.ticks_.push_back(
        {axis.middle(number - first), typesetter.line(grouped(number), kTextSize), kInk});
  }
  return result;
}

int Ticks::width() const {
  double widest = 0;
  for (const Tick& tick : ticks_) widest = std::max(widest, tick.text.width);
  return kTick + kTickGap + static_cast<int>(std::ceil(widest));
}

int Ticks::height() const { return names_ ? width() : kTick + kTickGap + kTextSize; }

void Ticks::draw_left(Picture& picture, Point corner) const {
  for (const Tick& tick : ticks_) {
    const int y = corner.y + tick.at;
    picture.fill({corner.x - 1 - kTick, y}, {kTick, 1}, tick.color);
    picture.text({corner.x - kTick - kTickGap, y}, tick.text, {.color = tick.color, .before = 1});
  }
}

void Ticks::draw_above(Picture& picture, Point corner) const {
  for (const Tick& tick : ticks_) {
    const int x = corner.x + tick.at;
    picture.fill({x, corner.y - 1 - kTick}, {1, kTick}, tick.color);
    const int gap = kTick + kTickGap + (names_ ? 0 : kTextSize / 2);
    picture.text({x, corner.y - gap}, tick.text,
                 {.color = tick.color, .before = names_ ? 0 : 0.5, .upwards = names_});
  }
}

}  // namespace longformer::cli
