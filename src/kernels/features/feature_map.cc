#include "kernels/features/feature_map.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/random.h"
#include "kernels/initialization.h"

namespace longformer::kernels {
namespace {

/// In double, so that the rotation has no more error than fp32 can hold.
double normal(std::uint64_t seed, Index index) {
  return static_cast<double>(random_normal(seed, static_cast<std::uint64_t>(index)));
}

}  // namespace

Index FeatureMap::features() const {
  const Index columns = directions == 0 ? head_size : directions;
  return has_pairs() ? 2 * columns : columns;
}

float FeatureMap::factor() const {
  return normalizes ? std::pow(static_cast<float>(head_size), -0.25f) : 1.0f;
}

void draw_features(const FeatureDraw& draw, std::uint64_t seed, Tensor& directions) {
  const Index count = directions.rows(), width = directions.columns();
  const std::uint64_t length_seed = random_bits(seed, 1);
  std::vector<double> block(static_cast<std::size_t>(width * width));
  for (Index row = 0; row < count; ++row) {
    double* of_row = block.data() + row % width * width;
    if (row % width == 0) {
      for (Index i = 0; i < width * width; ++i) {
        block[static_cast<std::size_t>(i)] = normal(seed, row * width + i);
      }
      if (draw.orthogonal) orthogonalize(block.data(), width, width);
    }
    double length = std::sqrt(static_cast<double>(width));
    if (!draw.constant_lengths) {
      double squares = 0;
      for (Index i = 0; i < width; ++i)
        squares += std::pow(normal(length_seed, row * width + i), 2);
      length = std::sqrt(squares);
    }
    // Independent rows have the lengths that they were drawn with.
    const double own = std::sqrt(std::inner_product(of_row, of_row + width, of_row, 0.0));
    const double scale = !draw.orthogonal && !draw.constant_lengths ? 1 : length / own;
    float* to = directions.data<float>() + row * width;
    for (Index i = 0; i < width; ++i) to[i] = static_cast<float>(of_row[i] * scale);
  }
}

void draw_head_features(const FeatureDraw& draw, std::uint64_t seed, Tensor& directions) {
  const Shape& shape = directions.shape();
  const Index heads = shape.size() == 3 ? shape[0] : 1;
  for (Index head = 0; head < heads; ++head) {
    Tensor drawn({shape[shape.size() - 2], shape.back()}, DType::f32);
    draw_features(draw, random_bits(seed, static_cast<std::uint64_t>(head)), drawn);
    std::copy_n(drawn.data<float>(), drawn.size(), directions.data<float>() + head * drawn.size());
  }
}

}  // namespace longformer::kernels
