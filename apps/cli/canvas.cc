#include "canvas.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>

#include "longformer/error.h"

namespace longformer::cli {

Canvas::Canvas(Size size, Color background)
    : size_(size),
      pixels_(static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height) * 3) {
  fill({0, 0}, size, background);
}

Color Canvas::at(Point point) const {
  const auto* pixel =
      &pixels_[3 * (static_cast<std::size_t>(point.y) * static_cast<std::size_t>(size_.width) +
                    static_cast<std::size_t>(point.x))];
  return {pixel[0], pixel[1], pixel[2]};
}

void Canvas::fill(Point corner, Size size, Color color) {
  const int left = std::max(corner.x, 0);
  const int right = std::min(corner.x + size.width, size_.width);
  const int bottom = std::min(corner.y + size.height, size_.height);
  for (int y = std::max(corner.y, 0); y < bottom; ++y) {
    for (int x = left; x < right; ++x) {
      auto* pixel =
          &pixels_[3 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(size_.width) +
                        static_cast<std::size_t>(x))];
      pixel[0] = color.red;
      pixel[1] = color.green;
      pixel[2] = color.blue;
    }
  }
}

std::string Canvas::png() const {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(size_.width);
  image.height = static_cast<png_uint_32>(size_.height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string file(bytes, '\0');
  if (png_image_write_to_memory(&image, file.data(), &bytes, 0, pixels_.data(), 0, nullptr) == 0) {
    throw Error(fmt::format("picture: {}", image.message));
  }
  file.resize(bytes);
  return file;
}

}  // namespace longformer::cli
