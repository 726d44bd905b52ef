// The tensors of a converted folder (docs/spec/conversion.md#c1).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "models/config.h"
#include "models/weights.h"

namespace longformer::models {

/// Conversion of a head, as its task defines it.
struct HeadPlan {
  /// A dense layer [outputs, hidden size] that Longformer has under another name, or a layer of any
  /// shape that it has under the same.
  struct Layer {
    std::string from, to;
    bool has_bias = true;
    bool has_any_shape = false;
  };
  /// How the class of the target ends.
  std::string class_ending = "Model";
  bool has_head = false;
  std::vector<Layer> layers = {};
  bool is_masked_lm = false;
  /// Classes whose head does not read the pooler have none.
  bool keeps_pooler = true;
};

/// The plan for the head of a model. Throws Error for one that Longformer has not.
using PlanHead = std::function<HeadPlan(const EncoderConfig& source, const Weights& weights)>;

struct WeightPlan {
  /// Longest document of the target, special tokens included.
  Index max_positions = 0;
  /// Absent: every tensor keeps its own.
  std::optional<DType> dtype;
  PlanHead head = {};
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
