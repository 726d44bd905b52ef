// config.json of what stands behind an encoder and writes texts: the decoders of LED and BART
// (docs/spec/led-and-generation.md#b1).
#pragma once

#include "core/dtype.h"
#include "formats/json.h"

namespace longformer::models {

struct EncoderConfig;

/// Width, vocabulary, activation and dropout are those of the encoder.
struct DecoderConfig {
  Index layers = 0;
  Index heads = 0;
  Index intermediate_size = 0;
  /// Rows of the position table; the first `reserved_positions` of them belong to no token.
  Index position_rows = 0;
  Index reserved_positions = 0;
  /// First token of a text in training.
  Index start_token_id = 2;

  /// Longest text in tokens.
  Index max_tokens() const { return position_rows - reserved_positions; }
};

/// The decoder behind an encoder that was read from the same object. Absent keys take the class
/// defaults of `transformers`. Throws Error that names file, key, expected and found.
DecoderConfig parse_decoder(const formats::ConfigReader& config, const EncoderConfig& encoder);

}  // namespace longformer::models
