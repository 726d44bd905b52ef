// config.json of what stands behind an encoder and writes texts: the decoders of LED and BART, and
// of Pegasus and its kin (docs/spec/led-and-generation.md#b1, #b15).
#pragma once

#include <cstdint>
#include <span>

#include "core/dtype.h"
#include "formats/json.h"

namespace longformer::models {

struct EncoderConfig;

/// A key of ours in config.json (docs/spec/file-formats.md#o9): DecoderConfig::source_rows.
inline constexpr const char* kSourceRowsKey = "cross_attention_rows";

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
  /// A text that is learned begins with its own last token, which is a language, instead (mBART).
  bool starts_with_last_token = false;
  /// Norms come before the sub-layers, and one behind the last layer; else behind the sums.
  bool norm_first = false;
  /// Embeddings have a norm.
  bool norms_embeddings = true;
  /// Projections of attention have biases.
  bool attention_bias = true;
  /// Most rows of a document that a text sees, each the mean of neighbouring tokens; 0: all tokens.
  Index source_rows = 0;

  /// Longest text in tokens.
  Index max_tokens() const { return position_rows - reserved_positions; }
  /// The token before a text whose tokens a decoder learns to write; `padding` are none of them.
  std::int32_t first_token(std::span<const std::int32_t> text, std::int32_t padding) const;
};

/// The decoder behind an encoder that was read from the same object. Absent keys take the class
/// defaults of `transformers`. Throws Error that names file, key, expected and found.
DecoderConfig parse_decoder(const formats::ConfigReader& config, const EncoderConfig& encoder);

}  // namespace longformer::models
