// Encoders whose layers are Llama's, without a decoder: norms of squares before the sub-layers,
// rotary positions, gated feed-forward blocks, grouped keys
// (docs/spec/modern-encoders.md#rms-encoders).
#pragma once

#include "models/registry.h"

namespace longformer::models {

Family eurobert_family();
Family neobert_family();
/// Decoders that are read as encoders, for vectors of texts alone.
Family qwen3_family();
Family gemma3_family();

}  // namespace longformer::models
