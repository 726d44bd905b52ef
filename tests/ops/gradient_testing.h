// Rows of the table of gradients (gradient_test.cc).
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "kernels/reference.h"
#include "ops/context.h"
#include "ops/linear.h"
#include "ops/normalization.h"

namespace longformer::ops {

using kernels::Activation;
using Doubles = std::vector<double>;
/// The inputs of an op in double, in the order of the row.
using Inputs = std::vector<Doubles>;

inline constexpr Index kRows = 19, kIn = 10, kOut = 21;
inline constexpr double kEpsilon = 1e-5;

struct Row {
  std::string name;
  std::vector<Shape> shapes;
  /// The op on tensors that want gradients.
  std::function<Tensor(const Context&, const std::vector<Tensor>&)> run;
  /// The op in double.
  std::function<Doubles(const Inputs&)> truth;
  /// How many of the inputs, from the first, are activations rather than parameters.
  std::size_t activations = 1;
};

/// x·Wᵀ + b
inline Doubles product(const Doubles& x, const Doubles& w, const Doubles& b, Index in) {
  const std::size_t rows = x.size() / at(in), out = b.size();
  Doubles y(rows * out);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t o = 0; o < out; ++o) {
      double sum = b[o];
      for (std::size_t i = 0; i < at(in); ++i) sum += x[r * at(in) + i] * w[o * at(in) + i];
      y[r * out + o] = sum;
    }
  }
  return y;
}

inline Doubles added(Doubles a, const Doubles& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// LayerNorm of rows; without beta nothing is added, and uncentred it is the RMS norm.
inline Doubles normalised(Doubles x, const Doubles& gamma, const Doubles& beta,
                          bool centres = true) {
  const std::size_t width = gamma.size();
  for (std::size_t begin = 0; begin < x.size(); begin += width) {
    double mean = 0, variance = 0;
    for (std::size_t c = 0; centres && c < width; ++c) {
      mean += x[begin + c] / static_cast<double>(width);
    }
    for (std::size_t c = 0; c < width; ++c) {
      variance += (x[begin + c] - mean) * (x[begin + c] - mean) / static_cast<double>(width);
    }
    for (std::size_t c = 0; c < width; ++c) {
      const double shift = beta.empty() ? 0 : beta[c];
      x[begin + c] = (x[begin + c] - mean) / std::sqrt(variance + kEpsilon) * gamma[c] + shift;
    }
  }
  return x;
}

inline Doubles dropped(Doubles x, const Dropout& dropout) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= static_cast<double>(dropout.factor(i));
  return x;
}

inline Tensor doubles_tensor(const Doubles& values, const Shape& shape) {
  Tensor tensor(shape, DType::f64);
  std::copy(values.begin(), values.end(), tensor.data<double>());
  return tensor;
}

/// Layers must outlive the backward pass.
template <typename T>
T& kept(T value) {
  static std::vector<std::shared_ptr<T>> all;
  all.push_back(std::make_shared<T>(std::move(value)));
  return *all.back();
}

inline Linear& layer(const Context& context, const Tensor& weight, const Tensor& bias,
                     std::optional<Activation> activation = std::nullopt) {
  return kept(Linear(std::vector{weight}, std::vector{bias},
                     {.dtype = context.dtype, .activation = activation, .trainable = true}));
}

inline LayerNorm norm_of(const Tensor& weight, const Tensor& bias) {
  return {.weight = weight, .bias = bias, .epsilon = static_cast<float>(kEpsilon)};
}

}  // namespace longformer::ops
