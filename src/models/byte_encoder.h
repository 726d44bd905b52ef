// Keys of encoders that begin with nothing: bytes as tokens, and with them norms before the
// sub-layers and the row of a document (docs/spec/file-formats.md#o10).
#pragma once

#include "models/registry.h"

namespace longformer::models {

/// The class defaults of a family, with the number of tokens and the padding of bytes where
/// config.json has the vocabulary "bytes". Throws Error for another vocabulary.
EncoderDefaults with_vocabulary(const formats::ConfigReader& config, const Family& family);

/// Reads the keys that only such an encoder has; nothing for others. Throws Error for ids that are
/// not those of bytes, and for layers or heads that the family does not have.
void read_byte_encoder(const formats::ConfigReader& config, EncoderConfig& model);

/// Writes the ids of bytes into a config.json that leaves them out: the class defaults of
/// `transformers` are others.
void spell_byte_ids(nlohmann::ordered_json& config);

}  // namespace longformer::models
