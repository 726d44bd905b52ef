// Labels of a picture in letters of 5 × 9 pixels: a to z, digits and a little punctuation.
#pragma once

#include <cstdint>
#include <string_view>

#include "canvas.h"

namespace longformer::cli {

inline constexpr int kGlyphWidth = 5;
/// The last two rows are below the line.
inline constexpr int kGlyphHeight = 9;
inline constexpr int kGlyphAdvance = kGlyphWidth + 1;

/// Width in pixels when every pixel of a letter is a square of `scale` pixels.
int text_width(std::string_view text, int scale);

/// Draws text with its upper left corner at a point; characters without a letter are blank.
void draw_text(Canvas& canvas, Point at, std::string_view text, int scale, Color color);

}  // namespace longformer::cli
