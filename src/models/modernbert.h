// config.json of ModernBERT (arXiv 2412.13663; docs/spec/modern-encoders.md#modernbert).
#pragma once

#include "formats/json.h"

namespace longformer::models {

struct EncoderConfig;

/// Fills in layers, heads and windows, from the keys of `transformers` 5 or those of before.
void read_modernbert(const formats::ConfigReader& config, EncoderConfig& model);

}  // namespace longformer::models
