// config.json of families that are BERT with rotary positions: nomic_bert, gte and
// jina_embeddings_v3 (docs/spec/modern-encoders.md#rotary-berts).
#pragma once

#include "formats/json.h"

namespace longformer::models {

struct EncoderConfig;

void read_nomic_bert(const formats::ConfigReader& config, EncoderConfig& model);
void read_gte(const formats::ConfigReader& config, EncoderConfig& model);
void read_jina_v3(const formats::ConfigReader& config, EncoderConfig& model);

}  // namespace longformer::models
