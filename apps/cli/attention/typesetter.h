// Labels of a picture as glyphs of the fonts that are installed.
#pragma once

#include <cairo.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace longformer::cli {

/// Gives back what a C library made: Release<cairo_destroy>.
template <auto give_back>
struct Release {
  template <typename T>
  void operator()(T* object) const {
    give_back(object);
  }
};

/// A line of text: glyphs of one font from x = 0 on, in pixels, on the base line y = 0.
struct TextLine {
  std::shared_ptr<cairo_font_face_t> font;
  int size = 0;
  std::vector<cairo_glyph_t> glyphs;
  double width = 0;
};

class Typesetter {
 public:
  /// Throws Error where no font is installed.
  Typesetter();

  /// The text in the direction of its script, in the sans-serif font or, where that lacks
  /// characters, in the one that has most of them. `size` is that of the letters in pixels.
  TextLine line(std::string_view text, int size) const;
  /// The same with as many characters as fit into `width`, and "…" where some are left out.
  TextLine line_within(std::string text, int size, double width) const;

 private:
  std::shared_ptr<cairo_font_face_t> sans_serif_;
};

}  // namespace longformer::cli
