// BART and LED folders into LED folders (docs/spec/conversion.md#c2).
#pragma once

#include <string>
#include <vector>

#include "formats/json.h"
#include "models/convert/tensors.h"

namespace longformer::models {

/// Whether a config.json is that of allenai's own LED, which calls itself a BART with windows.
bool is_original_led(const nlohmann::ordered_json& config, const std::string& name);
/// Rewrites the configuration as `transformers` would write it. Throws Error for settings that its
/// LED does not compute.
void update_original_led(nlohmann::ordered_json& config, const std::string& name);

/// Positions of the encoder repeated or cut, rows that belong to no token left out, projections
/// copied for global tokens where there are none. Throws Error for tensors of a head that LED has
/// not.
ConvertedWeights convert_led_weights(const EncoderConfig& config, const Weights& source,
                                     const WeightPlan& plan);

/// The config.json of the result; `windows` has one for each layer of the encoder.
nlohmann::ordered_json led_config(const nlohmann::ordered_json& source, const EncoderConfig& config,
                                  const std::vector<Index>& windows, Index max_positions);

/// generation_config.json of the source, or what its config.json says of generation: the file that
/// `transformers` then reads instead. Tokens that it does not name are those of the family.
nlohmann::ordered_json generation_config(const std::string& folder,
                                         const nlohmann::ordered_json& config,
                                         const EncoderConfig& model);

}  // namespace longformer::models
