// The activation functions in double, straight from their definitions
// (docs/spec/README.md#activations).
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/dtype.h"
#include "kernels/activation.h"

namespace longformer {

constexpr kernels::Activation kActivations[] = {
    kernels::Activation::gelu, kernels::Activation::gelu_tanh, kernels::Activation::relu,
    kernels::Activation::silu, kernels::Activation::tanh,      kernels::Activation::quick_gelu,
    kernels::Activation::mish};

/// From −10,000 to 10,000, dense around 0, without 0, where a slope may jump.
inline std::vector<float> activation_places(Index count) {
  std::vector<float> x;
  for (Index i = 0; i < count; ++i) {
    const double share = (static_cast<double>(i) + 0.3) / static_cast<double>(count) * 2 - 1;
    x.push_back(static_cast<float>(40 * share + 1e4 * std::pow(share, 15)));
  }
  return x;
}

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
