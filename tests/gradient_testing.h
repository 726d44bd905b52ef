// What the rows of the table of gradients are (gradient_test.cc).
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "kernels/reference.h"
#include "ops/context.h"

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
  /// The same in double.
  std::function<Doubles(const Inputs&)> truth;
  /// How many of the inputs, from the first, are activations rather than parameters.
  std::size_t activations = 1;
};

inline Tensor doubles_tensor(const Doubles& values, const Shape& shape) {
  Tensor tensor(shape, DType::f64);
  std::copy(values.begin(), values.end(), tensor.data<double>());
  return tensor;
}

}  // namespace longformer::ops
