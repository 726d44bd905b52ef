#include "kernels/initialization.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/random.h"

namespace longformer::kernels {

Tensor random_gains(const Shape& shape, float deviation, std::uint64_t seed) {
  Tensor gains = random_normal_tensor(shape, deviation, seed);
  float* values = gains.data<float>();
  for (Index i = 0; i < gains.size(); ++i) values[i] += 1;
  return gains;
}

Tensor truncated_normal(const Shape& shape, float deviation, double cutoff, std::uint64_t seed) {
  // So near to zero that few draws are good, the distribution is as good as uniform.
  constexpr std::uint64_t kDraws = 64;
  const auto limit = static_cast<float>(cutoff);
  Tensor numbers(shape, DType::f32);
  for (Index i = 0; i < numbers.size(); ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    float number = random_normal(seed, index);
    for (std::uint64_t draw = 1; std::abs(number) > limit && draw < kDraws; ++draw) {
      number = random_normal(random_bits(seed, draw), index);
    }
    if (std::abs(number) > limit) number = limit * (2 * random_uniform(~seed, index) - 1);
    numbers.data<float>()[i] = deviation * number;
  }
  return numbers;
}

Tensor uniform_numbers(const Shape& shape, double low, double high, std::uint64_t seed) {
  const auto middle = static_cast<float>((low + high) / 2);
  const auto reach = static_cast<float>((high - low) / 2);
  Tensor numbers(shape, DType::f32);
  for (Index i = 0; i < numbers.size(); ++i) {
    const float number = 2 * random_uniform(seed, static_cast<std::uint64_t>(i)) - 1;
    numbers.data<float>()[i] = middle + reach * number;
  }
  return numbers;
}

Tensor xavier_projection(const Shape& shape, std::uint64_t seed) {
  const double columns = static_cast<double>(shape.back());
  const double rows = static_cast<double>(shape[shape.size() - 2]);
  const double limit = std::sqrt(6 / (columns + rows)) / std::sqrt(2.0);
  return uniform_numbers(shape, -limit, limit, seed);
}

Tensor pooled_projection(const Shape& shape) {
  Tensor projection = Tensor::zeros(shape, DType::f32);
  const Index columns = shape.back(), rows = shape[shape.size() - 2];
  std::vector<Index> counts(at(rows), 0);
  for (Index j = 0; j < columns; ++j) ++counts[at(j * rows / columns)];
  for (Index matrix = 0; matrix < projection.size() / (rows * columns); ++matrix) {
    for (Index j = 0; j < columns; ++j) {
      const Index row = j * rows / columns;
      projection.data<float>()[(matrix * rows + row) * columns + j] =
          1 / static_cast<float>(counts[at(row)]);
    }
  }
  return projection;
}

Tensor averaging_convolution(const Shape& shape) {
  Tensor weights = Tensor::zeros(shape, DType::f32);
  const Index inputs = shape[1], taps = shape[2];
  for (Index out = 0; out < shape[0]; ++out) {
    float* to = weights.data<float>() + (out * inputs + (inputs == 1 ? 0 : out)) * taps;
    std::fill_n(to, taps, 1 / static_cast<float>(taps));
  }
  return weights;
}

Tensor orthogonal_projection(const Shape& shape, std::uint64_t seed) {
  const Index columns = shape.back(), rows = shape[shape.size() - 2];
  Tensor projection(shape, DType::f32);
  std::vector<double> rotation(at(rows * columns));
  for (Index matrix = 0; matrix < projection.size() / (rows * columns); ++matrix) {
    const Index first = matrix * rows * columns;
    for (Index i = 0; i < rows * columns; ++i) {
      rotation[at(i)] =
          static_cast<double>(random_normal(seed, static_cast<std::uint64_t>(first + i)));
    }
    orthogonalize(rotation.data(), rows, columns);
    const double scale = std::sqrt(static_cast<double>(columns) / static_cast<double>(rows));
    for (Index i = 0; i < rows * columns; ++i) {
      projection.data<float>()[first + i] = static_cast<float>(rotation[at(i)] * scale);
    }
  }
  return projection;
}

void orthogonalize(double* rows, Index count, Index width) {
  const auto dot = [width](const double* a, const double* b) {
    return std::inner_product(a, a + width, b, 0.0);
  };
  for (Index row = 0; row < count; ++row) {
    double* own = rows + row * width;
    // The second time removes what rounding has left of the others.
    for (int pass = 0; pass < 2; ++pass) {
      for (Index other = 0; other < row; ++other) {
        const double* before = rows + other * width;
        const double part = dot(own, before);
        for (Index c = 0; c < width; ++c) own[c] -= part * before[c];
      }
    }
    const double length = std::sqrt(dot(own, own));
    for (Index c = 0; c < width; ++c) own[c] /= length;
  }
}

void clear_row(Tensor& table, Index row) {
  std::fill_n(table.data<float>() + row * table.columns(), table.columns(), 0.0f);
}

Tensor with_further_rows(const Tensor& table, Index rows, std::uint64_t seed) {
  const std::vector<float> values = table.to_floats();
  double sum = 0, squares = 0;
  for (const float value : values) {
    sum += value;
    squares += double{value} * value;
  }
  const auto count = static_cast<double>(values.size());
  const double mean = sum / count;
  const double deviation = std::sqrt(std::max(0.0, squares / count - mean * mean));
  const Tensor drawn = random_normal_tensor({rows - table.rows(), table.columns()},
                                            static_cast<float>(deviation), seed);
  Tensor all({rows, table.columns()}, DType::f32);
  float* to = std::copy(values.begin(), values.end(), all.data<float>());
  const float* further = drawn.data<float>();
  for (Index i = 0; i < drawn.size(); ++i) to[i] = further[i] + static_cast<float>(mean);
  return all;
}

}  // namespace longformer::kernels
