#include "attention/cells.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace longformer::cli {

namespace {

constexpr std::array kScale = std::to_array<Color>(
    {{255, 247, 205}, {254, 216, 118}, {252, 141, 60}, {214, 41, 37}, {62, 8, 74}});
/// Largest square that stands for one cell.
constexpr int kMostPixels = 32;

}  // namespace

Axis::Axis(std::int64_t places, int room) : count(places) {
  block = std::max<std::int64_t>((count + room - 1) / room, 1);
  pixels = static_cast<int>(std::clamp<std::int64_t>(room / cells(), 1, kMostPixels));
}

std::int64_t Axis::cells() const { return std::max<std::int64_t>((count + block - 1) / block, 1); }

std::int64_t Axis::share(std::int64_t cell) const { return std::min(block, count - cell * block); }

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

Cells::Cells(Axis rows, Axis columns, Reduction reduction)
    : rows_(rows),
      columns_(columns),
      reduction_(reduction),
      values_(static_cast<std::size_t>(rows.cells() * columns.cells())) {}

void Cells::add(std::int64_t row, std::int64_t column, float probability) {
  const std::int64_t r = row / rows_.block;
  const std::int64_t c = column / columns_.block;
  float& value = values_[static_cast<std::size_t>(r * columns_.cells() + c)];
  if (reduction_ == Reduction::max) {
    value = std::max(value, probability);
  } else {
    value += probability / static_cast<float>(rows_.share(r) * columns_.share(c));
  }
}

Pixels Cells::pixels() const {
  Pixels pixels(size());
  const Size cell{columns_.pixels, rows_.pixels};
  for (int r = 0; r < rows_.cells(); ++r) {
    for (int c = 0; c < columns_.cells(); ++c) {
      const float value = values_[static_cast<std::size_t>(r * columns_.cells() + c)];
      pixels.fill({c * cell.width, r * cell.height}, cell, color_of(value));
    }
  }
  return pixels;
}

}  // namespace longformer::cli
