// A Performer's features in config.json (docs/spec/file-formats.md#o2).
#pragma once

#include "formats/json.h"
#include "kernels/features/feature_attention.h"
#include "models/weights.h"

namespace longformer::models {

struct FeatureConfig {
  /// m; 0 for kernels that do without directions.
  Index features = 256;
  kernels::FeatureKernel kernel = kernels::FeatureKernel::softmax;
  double epsilon = 0;
  bool normalizes = true;
  bool per_head = false;
  kernels::FeatureDraw draw = {};
  /// Steps of a training after which the directions are drawn again; 0: never.
  Index redraw_interval = 1000;

  kernels::FeatureMap map(Index head_size) const;
  /// Ω has this shape.
  Shape shape(Index heads, Index head_size) const;
};

/// Throws Error that names file, key, expected and found. Causal models have no epsilon in the
/// exponentials of softmax and hyperbolic features.
FeatureConfig read_features(const formats::ConfigReader& config, bool causal);
/// "256 orthogonal softmax features".
std::string description_of(const FeatureConfig& features);
void write_features(const FeatureConfig& features, nlohmann::ordered_json& json);

/// Ω of a layer; empty where there are no directions.
Tensor feature_directions(const FeatureConfig& features, const Weights& weights,
                          const std::string& name, Index heads, Index head_size);

}  // namespace longformer::models
