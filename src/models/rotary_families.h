// config.json of families that are BERT with rotary positions: nomic_bert, gte and
// jina_embeddings_v3 (docs/spec/modern-encoders.md#rotary-berts).
#pragma once

#include "formats/json.h"
#include "models/rotary_config.h"

namespace longformer::models {

struct EncoderConfig;

/// Rotary positions of all layers: rope_parameters count, else θ has a key of its own and
/// rope_scaling is the rest.
RotaryConfig rotation_of(const formats::ConfigReader& config, EncoderConfig& model, double theta);

void read_nomic_bert(const formats::ConfigReader& config, EncoderConfig& model);
void read_gte(const formats::ConfigReader& config, EncoderConfig& model);
void read_jina_v3(const formats::ConfigReader& config, EncoderConfig& model);

}  // namespace longformer::models
