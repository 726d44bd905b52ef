#include "kernels/features/feature_map.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "core/random.h"

namespace longformer::kernels {
namespace {

/// In double, so that the rotation has no more error than fp32 can hold.
double normal(std::uint64_t seed, Index index) {
  return static_cast<double>(random_normal(seed, static_cast<std::uint64_t>(index)));
}

double dot(const double* a, const double* b, Index count) {
  double sum = 0;
  for (Index i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

Index FeatureMap::features() const {
  const Index columns = directions == 0 ? head_size : directions;
  return has_pairs() ? 2 * columns : columns;
}

float FeatureMap::factor() const {
  return normalizes ? std::pow(static_cast<float>(head_size), -0.25f) : 1.0f;
}

// Gram–Schmidt gives the Q whose R has a positive diagonal, which is Q·diag(sign R_rr). The columns
// of the matrix that is decomposed are made orthogonal, and become rows at the end.
void orthogonalize(double* rows, Index count) {
  std::vector<double> columns(static_cast<std::size_t>(count * count));
  for (Index c = 0; c < count; ++c) {
    double* column = columns.data() + c * count;
    for (Index r = 0; r < count; ++r) column[r] = rows[r * count + c];
    // The second time removes what rounding has left of the others.
    for (int pass = 0; pass < 2; ++pass) {
      for (Index other = 0; other < c; ++other) {
        const double* before = columns.data() + other * count;
        const double part = dot(column, before, count);
        for (Index r = 0; r < count; ++r) column[r] -= part * before[r];
      }
    }
    const double length = std::sqrt(dot(column, column, count));
    for (Index r = 0; r < count; ++r) column[r] /= length;
  }
  std::copy(columns.begin(), columns.end(), rows);
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
      if (draw.orthogonal) orthogonalize(block.data(), width);
    }
    double length = std::sqrt(static_cast<double>(width));
    if (!draw.constant_lengths) {
      double squares = 0;
      for (Index i = 0; i < width; ++i)
        squares += std::pow(normal(length_seed, row * width + i), 2);
      length = std::sqrt(squares);
    }
    // Independent rows have the lengths that they were drawn with.
    const double own = std::sqrt(dot(of_row, of_row, width));
    const double scale = !draw.orthogonal && !draw.constant_lengths ? 1 : length / own;
    float* to = directions.data<float>() + row * width;
    for (Index i = 0; i < width; ++i) to[i] = static_cast<float>(of_row[i] * scale);
  }
}

}  // namespace longformer::kernels
