// A picture of boxes, pixels and text as a file, drawn by cairo.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "attention/typesetter.h"

namespace longformer::cli {

enum class PictureFormat { png, svg, pdf };

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

/// A box around everything that has been drawn; x grows to the right, y downwards.
struct Bounds {
  int left = 0, top = 0, right = 0, bottom = 0;
};

/// Colours of pixels, row by row from the upper left corner.
class Pixels {
 public:
  explicit Pixels(Size size);

  Size size() const { return size_; }
  void fill(Point corner, Size size, Color color);

 private:
  friend class Picture;
  Size size_;
  /// As cairo lays them out: 0xRRGGBB.
  std::vector<std::uint32_t> values_;
};

struct TextStyle {
  Color color;
  /// The share of the line that lies before its point: 0 begins there, 0.5 is centred, 1 ends
  /// there.
  double before = 0;
  /// The line runs upwards instead of to the right.
  bool upwards = false;
};

/// Points may have any coordinates: the picture ends a margin beyond what is drawn.
class Picture {
 public:
  const Typesetter& typesetter() const { return typesetter_; }
  const Bounds& bounds() const { return bounds_; }

  void fill(Point corner, Size size, Color color);
  /// A line of one pixel around a box.
  void frame(Point corner, Size size, Color color);
  /// `make` is called when the pixels are needed.
  void pixels(Point corner, Size size, const std::function<Pixels()>& make);
  /// The point is half way between the top and the bottom of the letters.
  void text(Point at, const TextLine& line, const TextStyle& style);

 private:
  friend std::string picture_file(PictureFormat, const std::function<void(Picture&)>&);
  Picture(const Typesetter& typesetter, cairo_t* context)
      : typesetter_(typesetter), context_(context) {}
  void include(const Bounds& box);
  void set_color(Color color);

  const Typesetter& typesetter_;
  /// Null while only the bounds are wanted.
  cairo_t* context_;
  Bounds bounds_;
};

/// The bytes of a file with what `draw` draws; it is called twice and draws the same. Throws Error
/// where there is no font, no memory, or more pixels than a picture can have.
std::string picture_file(PictureFormat format, const std::function<void(Picture&)>& draw);

}  // namespace longformer::cli
