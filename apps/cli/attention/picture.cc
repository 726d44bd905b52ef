#include "attention/picture.h"

#include <cairo-pdf.h>
#include <cairo-svg.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <numbers>

#include "longformer/error.h"

namespace longformer::cli {

namespace {

using Surface = std::unique_ptr<cairo_surface_t, Release<cairo_surface_destroy>>;
using Context = std::unique_ptr<cairo_t, Release<cairo_destroy>>;
using FontOptions = std::unique_ptr<cairo_font_options_t, Release<cairo_font_options_destroy>>;

constexpr int kMargin = 20;
/// Half the height of capital letters, as a part of the size of letters.
constexpr double kMiddle = 0.36;

cairo_status_t append(void* file, const unsigned char* bytes, unsigned count) {
  try {
    static_cast<std::string*>(file)->append(reinterpret_cast<const char*>(bytes), count);
    return CAIRO_STATUS_SUCCESS;
  } catch (const std::bad_alloc&) {
    return CAIRO_STATUS_NO_MEMORY;
  }
}

Surface new_surface(PictureFormat format, Size size, std::string& file) {
  switch (format) {
    case PictureFormat::svg:
      return Surface(cairo_svg_surface_create_for_stream(append, &file, size.width, size.height));
    case PictureFormat::pdf:
      return Surface(cairo_pdf_surface_create_for_stream(append, &file, size.width, size.height));
    case PictureFormat::png:
      break;
  }
  return Surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, size.width, size.height));
}

void check(cairo_status_t status, Size size) {
  if (status == CAIRO_STATUS_SUCCESS) return;
  throw Error(fmt::format("a picture of {} x {} pixels cannot be drawn: {}", size.width,
                          size.height, cairo_status_to_string(status)));
}

}  // namespace

Pixels::Pixels(Size size)
    : size_(size),
      values_(static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height)) {}

void Pixels::fill(Point corner, Size size, Color color) {
  const std::uint32_t value =
      std::uint32_t{color.red} << 16 | std::uint32_t{color.green} << 8 | std::uint32_t{color.blue};
  for (int y = corner.y; y < corner.y + size.height; ++y) {
    std::fill_n(values_.begin() + std::ptrdiff_t{y} * size_.width + corner.x, size.width, value);
  }
}

void Picture::include(const Bounds& box) {
  bounds_ = {.left = std::min(bounds_.left, box.left),
             .top = std::min(bounds_.top, box.top),
             .right = std::max(bounds_.right, box.right),
             .bottom = std::max(bounds_.bottom, box.bottom)};
}

void Picture::set_color(Color color) {
  cairo_set_source_rgb(context_, color.red / 255.0, color.green / 255.0, color.blue / 255.0);
}

void Picture::fill(Point corner, Size size, Color color) {
  include({corner.x, corner.y, corner.x + size.width, corner.y + size.height});
  if (context_ == nullptr) return;
  set_color(color);
  cairo_rectangle(context_, corner.x, corner.y, size.width, size.height);
  cairo_fill(context_);
}

void Picture::frame(Point corner, Size size, Color color) {
  fill({corner.x - 1, corner.y - 1}, {size.width + 2, 1}, color);
  fill({corner.x - 1, corner.y + size.height}, {size.width + 2, 1}, color);
  fill({corner.x - 1, corner.y}, {1, size.height}, color);
  fill({corner.x + size.width, corner.y}, {1, size.height}, color);
}

void Picture::pixels(Point corner, Size size, const std::function<Pixels()>& make) {
  include({corner.x, corner.y, corner.x + size.width, corner.y + size.height});
  if (context_ == nullptr) return;
  Pixels pixels = make();
  const int stride = size.width * static_cast<int>(sizeof(std::uint32_t));
  const Surface image(
      cairo_image_surface_create_for_data(reinterpret_cast<unsigned char*>(pixels.values_.data()),
                                          CAIRO_FORMAT_RGB24, size.width, size.height, stride));
  cairo_set_source_surface(context_, image.get(), corner.x, corner.y);
  // Where a page is enlarged, pixels stay squares.
  cairo_pattern_set_filter(cairo_get_source(context_), CAIRO_FILTER_NEAREST);
  cairo_rectangle(context_, corner.x, corner.y, size.width, size.height);
  cairo_fill(context_);
  cairo_set_source_rgb(context_, 0, 0, 0);
  // Nothing may read the pixels after their end.
  cairo_surface_finish(image.get());
}

void Picture::text(Point at, const TextLine& line, const TextStyle& style) {
  const double shift = -line.width * style.before;
  const auto begin = static_cast<int>(std::floor(shift));
  const auto end = static_cast<int>(std::ceil(shift + line.width));
  const int half = line.size * 2 / 3;
  include(style.upwards ? Bounds{at.x - half, at.y - end, at.x + half, at.y - begin}
                        : Bounds{at.x + begin, at.y - half, at.x + end, at.y + half});
  if (context_ == nullptr) return;
  cairo_save(context_);
  cairo_translate(context_, at.x, at.y);
  if (style.upwards) cairo_rotate(context_, -std::numbers::pi / 2);
  cairo_translate(context_, shift, kMiddle * line.size);
  cairo_set_font_face(context_, line.font.get());
  cairo_set_font_size(context_, line.size);
  set_color(style.color);
  cairo_show_glyphs(context_, line.glyphs.data(), static_cast<int>(line.glyphs.size()));
  cairo_restore(context_);
}

std::string picture_file(PictureFormat format, const std::function<void(Picture&)>& draw) {
  const Typesetter typesetter;
  Picture measured(typesetter, nullptr);
  draw(measured);
  const Bounds& box = measured.bounds();
  const Size size{box.right - box.left + 2 * kMargin, box.bottom - box.top + 2 * kMargin};
  std::string file;
  const Surface surface = new_surface(format, size, file);
  {
    const Context context(cairo_create(surface.get()));
    cairo_set_source_rgb(context.get(), 1, 1, 1);
    cairo_paint(context.get());
    cairo_translate(context.get(), kMargin - box.left, kMargin - box.top);
    const FontOptions options(cairo_font_options_create());
    cairo_font_options_set_antialias(options.get(), CAIRO_ANTIALIAS_GRAY);
    cairo_font_options_set_hint_style(options.get(), CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(options.get(), CAIRO_HINT_METRICS_OFF);
    cairo_set_font_options(context.get(), options.get());
    Picture picture(typesetter, context.get());
    draw(picture);
    check(cairo_status(context.get()), size);
  }
  if (format == PictureFormat::png) {
    check(cairo_surface_write_to_png_stream(surface.get(), append, &file), size);
  } else {
    cairo_surface_finish(surface.get());
    check(cairo_surface_status(surface.get()), size);
  }
  return file;
}

}  // namespace longformer::cli
