// Folders of models with rotary positions for longer documents: config.json changes, no weight does
// (docs/spec/modern-encoders.md#rotary; YaRN, arXiv 2309.00071).
#pragma once

#include "formats/json.h"
#include "longformer/options.h"
#include "models/config.h"

namespace longformer::models {

/// config.json of `source` for documents of so many tokens. Layers that see everything get YaRN, or
/// a larger θ; windows see no farther than before and keep their angles. Throws Error for a model
/// whose positions are stretched in another way already.
nlohmann::ordered_json lengthened_config(const nlohmann::ordered_json& source,
                                         const EncoderConfig& config, Index max_tokens,
                                         const ConvertOptions& options);

}  // namespace longformer::models
