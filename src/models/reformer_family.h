// Reformer as an encoder, which looks both ways (docs/spec/other-attentions.md#h3).
#pragma once

#include "models/attention/chunked.h"
#include "models/registry.h"

namespace longformer::models {

Family reformer_family();

/// Its layers, by the names that encoders have.
ReformerLayers reformer_layers(const EncoderConfig& config);

}  // namespace longformer::models
