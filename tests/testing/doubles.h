// The numbers of tensors in double precision, as plain loops take them.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace longformer {

using Doubles = std::vector<double>;

inline Doubles doubles(const Tensor& x) {
  const std::vector<float> floats = x.to_floats();
  return {floats.begin(), floats.end()};
}

}  // namespace longformer
