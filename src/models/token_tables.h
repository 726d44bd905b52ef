// The tables of tokens of an encoder with a decoder, which have several names
// (docs/spec/led-and-generation.md#b2).
#pragma once

#include <string>

#include "models/config.h"
#include "models/weights.h"

namespace longformer::models {

inline constexpr const char* kEncoderTokens = "encoder.embed_tokens.weight";
inline constexpr const char* kDecoderTokens = "decoder.embed_tokens.weight";
inline constexpr const char* kOutputTokens = "lm_head.weight";

/// The name of the tensor that a use of a token table reads, where `own` is its name alone. Of an
/// encoder without a decoder that is the one there is. Tied tables have any of four names, and a
/// stored one keeps its own values.
std::string token_table(const EncoderConfig& config, const Weights& weights,
                        const std::string& own);

}  // namespace longformer::models
