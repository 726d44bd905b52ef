// A picture in memory, and its PNG file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longformer::cli {

struct Color {
  std::uint8_t red = 0, green = 0, blue = 0;
};

struct Point {
  int x = 0;
  int y = 0;
};

struct Size {
  int width = 0;
  int height = 0;
};

/// Pixels from the upper left corner.
class Canvas {
 public:
  Canvas(Size size, Color background);

  Size size() const { return size_; }
  Color at(Point point) const;
  /// A rectangle; what lies outside of the canvas is left out.
  void fill(Point corner, Size size, Color color);
  /// The bytes of a PNG file. Throws Error when there is no memory for them.
  std::string png() const;

 private:
  Size size_;
  /// Red, green and blue of every pixel, row by row.
  std::vector<std::uint8_t> pixels_;
};

}  // namespace longformer::cli
