// Weights of a converted folder as 8-bit whole numbers (docs/int8.md).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "models/config.h"
#include "models/weights.h"

namespace longformer::models {

/// The layers of a model, those of a decoder too, that int8 multiplies when some are skipped.
/// Throws Error for a name that skips nothing.
Int8Layers int8_layers_of(const EncoderConfig& config, const std::vector<std::string>& skipped);

/// Turns matrices of layers into 8-bit whole numbers with a scale for each row, but for those of
/// `skipped` (Int8Layers) and those that `source`, if it has such numbers, has not made so, and
/// gives quantization_config of config.json. Tensors have names as in files of the model. Throws
/// Error for names that skip nothing.
nlohmann::ordered_json make_int8(const EncoderConfig& config, const Weights& source,
                                 const std::vector<std::string>& skipped,
                                 std::vector<std::pair<std::string, Tensor>>& tensors);

}  // namespace longformer::models
