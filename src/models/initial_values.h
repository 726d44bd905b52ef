// How matrices and tables begin that no file has (docs/spec/encoder.md#a1).
#pragma once

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace longformer::models {

/// Rules of a family. The defaults are those of BERT: N(0, initializer_range²).
struct InitialValues {
  /// Numbers are drawn from N(0, deviation²).
  double deviation = 0.02;
  /// Numbers are within ± so many deviations; 0: they have no bound.
  double cutoff = 0;
  /// The deviation of a matrix [out, in] is 1 / √(in + out) instead.
  bool by_shape = false;
  /// The row of padding in the table of tokens is zero.
  bool clears_padding = true;
  /// Deviations of layers, and of tables by their tensors, whose names end so; the first counts.
  std::vector<std::pair<std::string_view, double>> others = {};

  double deviation_of(std::string_view name, Index out, Index in) const {
    for (const auto& [ending, own] : others) {
      if (name.ends_with(ending)) return own;
    }
    return by_shape ? 1 / std::sqrt(static_cast<double>(in + out)) : deviation;
  }
};

}  // namespace longformer::models
