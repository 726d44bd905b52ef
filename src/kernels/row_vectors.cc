#include "kernels/row_vectors.h"

#include <cmath>

namespace longformer::kernels {
namespace {

constexpr double kDistanceEpsilon = 1e-6;

const float* row_at(const Tensor& x, Index row) { return x.data<float>() + row * x.columns(); }
float* row_at(Tensor& x, Index row) { return x.data<float>() + row * x.columns(); }

double dot(const float* a, const float* b, Index width) {
  double sum = 0;
  for (Index c = 0; c < width; ++c) sum += static_cast<double>(a[c]) * static_cast<double>(b[c]);
  return sum;
}

/// a − b + ε, and its length.
struct Difference {
  const float* a;
  const float* b;
  double length = 0;

  Difference(const float* from, const float* to, Index width) : a(from), b(to) {
    for (Index c = 0; c < width; ++c) length += at(c) * at(c);
    length = std::sqrt(length);
  }
  double at(Index c) const {
    return static_cast<double>(a[c]) - static_cast<double>(b[c]) + kDistanceEpsilon;
  }
  /// The slope of the length along column c of a.
  double slope(Index c) const { return length > 0 ? at(c) / length : 0; }
};

}  // namespace

void unit_rows(const Tensor& x, Tensor& y, std::vector<float>& lengths) {
  const Index width = x.columns();
  lengths.resize(static_cast<std::size_t>(x.rows()));
  for (Index row = 0; row < x.rows(); ++row) {
    const float* from = row_at(x, row);
    const double length = std::sqrt(dot(from, from, width));
    const double scale = length > 0 ? 1 / length : 0;
    lengths[static_cast<std::size_t>(row)] = static_cast<float>(length);
    float* to = row_at(y, row);
    for (Index c = 0; c < width; ++c) {
      to[c] = static_cast<float>(scale * static_cast<double>(from[c]));
    }
  }
}

void unit_rows_backward(const Tensor& y, std::span<const float> lengths, Tensor& gradient) {
  const Index width = y.columns();
  for (Index row = 0; row < y.rows(); ++row) {
    const auto length = static_cast<double>(lengths[static_cast<std::size_t>(row)]);
    const double scale = length > 0 ? 1 / length : 0;
    const float* unit = row_at(y, row);
    float* slope = row_at(gradient, row);
    const double along = dot(slope, unit, width);
    for (Index c = 0; c < width; ++c) {
      slope[c] = static_cast<float>(
          scale * (static_cast<double>(slope[c]) - along * static_cast<double>(unit[c])));
    }
  }
}

void row_dots(const Tensor& a, const Tensor& b, Tensor& dots) {
  for (Index row = 0; row < a.rows(); ++row) {
    dots.data<float>()[row] = static_cast<float>(dot(row_at(a, row), row_at(b, row), a.columns()));
  }
}

void row_dots_backward(const Tensor& gradient, const Tensor& other, Tensor& dx) {
  for (Index row = 0; row < other.rows(); ++row) {
    const float factor = gradient.data<float>()[row];
    const float* from = row_at(other, row);
    float* to = row_at(dx, row);
    for (Index c = 0; c < other.columns(); ++c) to[c] = factor * from[c];
  }
}

LossSum triplet_loss(const Tensor& x, std::span<const Triplet> triplets, double margin,
                     const LossOptions& options, Tensor& gradient) {
  const Index width = x.columns();
  LossSum loss;
  for (const Triplet& triplet : triplets) {
    const float* anchor = row_at(x, triplet.anchor);
    const Difference near(anchor, row_at(x, triplet.positive), width);
    const Difference far(anchor, row_at(x, triplet.negative), width);
    const double value = near.length - far.length + margin;
    loss.weight += 1;
    if (value <= 0) continue;
    loss.sum += value;
    float* to_anchor = row_at(gradient, triplet.anchor);
    float* to_positive = row_at(gradient, triplet.positive);
    float* to_negative = row_at(gradient, triplet.negative);
    for (Index c = 0; c < width; ++c) {
      const double toward = options.scale * near.slope(c), away = options.scale * far.slope(c);
      to_anchor[c] += static_cast<float>(toward - away);
      to_positive[c] -= static_cast<float>(toward);
      to_negative[c] += static_cast<float>(away);
    }
  }
  return loss;
}

}  // namespace longformer::kernels
