// The tensors of a converted folder (spec.md C.1).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "models/config.h"
#include "models/weights.h"

namespace longformer::models {

struct WeightPlan {
  /// Longest document of the target, special tokens included.
  Index max_positions = 0;
  /// Absent: every tensor keeps its own.
  std::optional<DType> dtype;
};

struct ConvertedWeights {
  /// In the order of the model, with the names of `transformers`.
  std::vector<std::pair<std::string, Tensor>> tensors;
  /// The class that the target is, such as "LongformerForSequenceClassification".
  std::string architecture;
};

/// Turns the weights of an encoder into those of a Longformer: positions repeated or cut, query,
/// key and value copied into the global projections where there are none, and the tensors of the
/// head under the names of Longformer. Throws Error for tensors that are missing, of another shape,
/// or of a head that Longformer has not.
ConvertedWeights convert_weights(const EncoderConfig& config, const Weights& source,
                                 const WeightPlan& plan);

}  // namespace longformer::models
