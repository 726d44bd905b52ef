// Builders of what models are made of, from weights by name: each says how its tensors begin.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "models/initial_values.h"
#include "models/weights.h"
#include "ops/linear.h"
#include "ops/normalization.h"

namespace longformer::models {

struct LinearShape {
  Index out = 0, in = 0;
};

/// Source of the parts of a model.
struct LayerSource {
  const Weights& weights;
  /// dtype of activations, and of the weights when multiplied.
  DType dtype = DType::f32;
  /// How matrices and tables begin.
  InitialValues initial = {};
  double layer_norm_eps = 0;
  /// Gains of norms begin with N(1, gain_range²).
  double gain_range = 0;
  /// See LayerRecipe.
  bool norm_bias = true, centres_norms = true;
  double gain_offset = 0;

  /// For the matrix of a layer, or for a table.
  Init init(std::string_view name, LinearShape shape, Index zero_row = -1) const {
    return Init::normal(initial.deviation_of(name, shape.out, shape.in), zero_row, initial.cutoff);
  }
};

struct LinearParts {
  std::optional<ops::Activation> activation = std::nullopt;
  bool has_bias = true;
  /// Empty: "NAME.bias".
  std::string bias_name = {};
  kernels::LinearSlabs slabs = {};
  /// Initial value of the bias, and whether a training changes it.
  double bias_value = 0;
  bool trains_bias = true;
  /// Instead of that of the source.
  std::optional<DType> dtype = std::nullopt;
};

/// How many slabs the numbers between two dense layers of these names should lie in.
Index slabs_between(const LayerSource& source, const std::string& up, const std::string& down,
                    Index inner);

/// A dense layer, "NAME.weight" [out, in].
ops::Linear linear(const LayerSource& source, const std::string& name, LinearShape shape,
                   const LinearParts& parts = {});

/// A layer made of stored tensors by pack(): once for all models that share layers and whose
/// adapters change none of the tensors.
ops::Linear shared_linear(const LayerSource& source, std::span<const std::string> tensors,
                          const std::function<ops::Linear()>& pack);

/// "NAME.weight" in fp32, once for all models that share layers, and what the adapter of this one
/// adds to it; empty where that is part of the matrix, or is trained (Weights::low_rank).
struct AddedMatrix {
  Tensor matrix;
  ops::LowRank addition = {};
};
AddedMatrix matrix_fp32(const LayerSource& source, const std::string& name, LinearShape shape);

/// A convolution over so many rows whose stride is the width of its kernel, "NAME.weight" [out, in,
/// taps]: a dense layer over kernels::RowWindow::features.
ops::Linear convolution(const LayerSource& source, const std::string& name, LinearShape shape,
                        Index taps, std::optional<ops::Activation> activation = std::nullopt);

/// Several dense layers of one shape that read the same rows, stacked.
ops::Linear stacked_linear(const LayerSource& source, std::span<const std::string> names,
                           LinearShape shape, bool has_bias = true);

/// "NAME.weight" and, where norms have one, "NAME.bias" [width].
ops::LayerNorm layer_norm(const LayerSource& source, const std::string& name, Index width);

/// A table [rows, width] in the dtype of the file; the row of padding, unless it is −1, begins with
/// zeros.
Tensor embedding(const LayerSource& source, const std::string& name, LinearShape shape,
                 Index padding = -1);

}  // namespace longformer::models
