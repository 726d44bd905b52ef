// config.json of models that read a text and write another: LED and BART (spec.md B.1).
#pragma once

#include <string>
#include <vector>

#include "models/config.h"

namespace longformer::models {

struct DecoderConfig {
  Index layers = 0;
  Index heads = 0;
  Index intermediate_size = 0;
  /// Rows of the position table; the first `reserved_positions` of them belong to no token.
  Index position_rows = 0;
  Index reserved_positions = 0;

  /// Longest text in tokens.
  Index max_tokens() const { return position_rows - reserved_positions; }
};

/// Both halves have the width, vocabulary, activation and dropout of the encoder.
struct EncoderDecoderConfig {
  EncoderConfig encoder;
  DecoderConfig decoder;
  /// The token that a text begins with when the model is taught; −1 where config.json has none.
  Index decoder_start_token_id = 2;

  Index hidden_size() const { return encoder.hidden_size; }
  Index head_size() const { return encoder.hidden_size / decoder.heads; }
};

/// Reads a config.json file. Absent keys take the class defaults of `transformers`. Throws Error
/// that names file, key, expected and found.
EncoderDecoderConfig read_encoder_decoder(const std::string& path);

/// The same for an object that is parsed already.
EncoderDecoderConfig parse_encoder_decoder(const formats::ConfigReader& config);

}  // namespace longformer::models
