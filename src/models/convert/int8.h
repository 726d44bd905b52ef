// Weights of a converted folder as 8-bit whole numbers (docs/int8.md).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "models/config.h"

namespace longformer::models {

/// Turns matrices of layers into 8-bit whole numbers with a scale for each row, but for those of
/// `skipped` (Int8Layers), and gives quantization_config of config.json. Tensors have names as in
/// files of the model. Throws Error for names that skip nothing.
nlohmann::ordered_json make_int8(const EncoderConfig& config,
                                 const std::vector<std::string>& skipped,
                                 std::vector<std::pair<std::string, Tensor>>& tensors);

}  // namespace longformer::models
