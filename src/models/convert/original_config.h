// config.json of the first Longformer folders, made before `transformers` had the model
// (docs/spec/encoder.md#a1).
#pragma once

#include <string>

#include "formats/json.h"

namespace longformer::models {

/// Windows of one side become total ones, keys that only the first implementation knows go, and so
/// do dilations of one everywhere. Throws Error for attention that computes something else.
void update_original_windows(nlohmann::ordered_json& config, const std::string& name);

/// Whether a configuration is one of a Longformer that `transformers` does not know as one: the
/// original implementation, whose attention_window counts one side, or a RoBERTa whose attention
/// was replaced. A model_type of longformer decides against it. Throws Error unless it is an
/// object.
bool is_original_config(const nlohmann::ordered_json& config, const std::string& name);

/// Makes it the configuration of the same model in `transformers`, with total windows. Dilation,
/// which `transformers` does not have, stays. Throws Error for attention that is autoregressive or
/// of another mode.
void update_original_config(nlohmann::ordered_json& config, const std::string& name);

}  // namespace longformer::models
