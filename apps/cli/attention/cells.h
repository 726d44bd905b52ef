// Probabilities of pairs of tokens, gathered in as many cells as a picture has room for.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/picture.h"

namespace longformer::cli {

/// What one cell of many pairs of tokens shows.
enum class Reduction { max, mean };

/// How `count` places fit into some pixels: `block` places share a cell of `pixels` pixels.
struct Axis {
  std::int64_t count = 0;
  std::int64_t block = 1;
  int pixels = 1;

  Axis(std::int64_t places, int room);

  std::int64_t cells() const;
  int length() const { return static_cast<int>(cells()) * pixels; }
  /// Pixel in the middle of a place.
  int middle(std::int64_t place) const {
    return static_cast<int>(place / block) * pixels + pixels / 2;
  }
  /// Places that share a cell.
  std::int64_t share(std::int64_t cell) const;
};

/// A colour for each probability: from 10^-kDecades to 1 in equal steps of the logarithm.
inline constexpr int kDecades = 4;
/// That of pairs without any attention, most of them outside of every window.
inline constexpr Color kNothing = {238, 240, 243};
Color color_of(float probability);

class Cells {
 public:
  Cells(Axis rows, Axis columns, Reduction reduction);

  const Axis& rows() const { return rows_; }
  const Axis& columns() const { return columns_; }
  Size size() const { return {columns_.length(), rows_.length()}; }

  void add(std::int64_t row, std::int64_t column, float probability);
  Pixels pixels() const;

 private:
  Axis rows_, columns_;
  Reduction reduction_;
  std::vector<float> values_;
};

}  // namespace longformer::cli
