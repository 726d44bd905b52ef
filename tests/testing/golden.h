// The filler of the golden vectors (docs/spec/README.md#det).
#pragma once

#include <cmath>
#include <vector>

#include "core/tensor.h"

namespace longformer {

/// scale·sin(1 + 0.7·i + 1.3·number).
inline Tensor det(const Shape& shape, double number, double scale) {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] =
        static_cast<float>(scale * std::sin(1 + 0.7 * static_cast<double>(i) + 1.3 * number));
  }
  return Tensor::from(values, shape);
}

}  // namespace longformer
