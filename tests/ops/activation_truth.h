// The activation functions in double, straight from their definitions
// (docs/spec/README.md#activations).
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/activation.h"

namespace longformer {

inline double activation_truth(double x, kernels::Activation activation) {
  using kernels::Activation;
  switch (activation) {
    case Activation::gelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::quick_gelu:
      return x / (1 + std::exp(-1.702 * x));
    case Activation::mish:
      return x * std::tanh(std::log1p(std::exp(x)));
  }
  return NAN;
}

}  // namespace longformer
