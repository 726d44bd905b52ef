#include "models/decoder_config.h"

#include <algorithm>

#include "core/error.h"
#include "models/config.h"
#include "models/config_limits.h"
#include "models/registry.h"

namespace longformer::models {

DecoderConfig parse_decoder(const formats::ConfigReader& config, const EncoderConfig& encoder) {
  const EncoderTraits& traits = encoder.traits();
  const DecoderTraits& own = *encoder.family->decoder;
  DecoderConfig decoder;
  decoder.norm_first = !own.final_norm.empty();
  // `transformers` reads them of no family: a BART has the other form, whatever it says.
  for (const char* key :
       {"normalize_before", "add_final_layer_norm", "static_position_embeddings"}) {
    const bool is_set = config.boolean(key, false);
    require(!is_set || decoder.norm_first,
            "{}: {}: expected false, found true: not supported for model_type {}", config.name(),
            key, encoder.model_type());
  }
  decoder.layers = config.integer("decoder_layers", traits.defaults.layers, 1, kMaxLayers);
  decoder.heads =
      config.integer("decoder_attention_heads", traits.defaults.heads, 1, encoder.hidden_size);
  require(encoder.hidden_size % decoder.heads == 0,
          "{}: d_model: expected a multiple of decoder_attention_heads = {}, found {}",
          config.name(), decoder.heads, encoder.hidden_size);
  decoder.intermediate_size =
      config.integer("decoder_ffn_dim", traits.defaults.intermediate_size, 1, kMaxIntermediate);
  decoder.reserved_positions = traits.reserved_positions;
  decoder.position_rows =
      config.integer(std::string(own.positions_key), own.positions, 1, kMaxPositions) +
      traits.reserved_positions;
  decoder.norms_embeddings = own.norms_embeddings;
  decoder.attention_bias = encoder.recipe.attention_bias;
  decoder.source_rows = config.integer(kSourceRowsKey, 0, 0, kMaxPositions);
  decoder.starts_with_last_token = !own.start_token;
  decoder.start_token_id = config.integer("decoder_start_token_id", own.start_token.value_or(0), 0,
                                          encoder.vocab_size - 1);
  return decoder;
}

std::int32_t DecoderConfig::first_token(std::span<const std::int32_t> text,
                                        std::int32_t padding) const {
  if (!starts_with_last_token) return static_cast<std::int32_t>(start_token_id);
  // `transformers` counts the tokens, and takes the last one of so many.
  const auto count = static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [=](std::int32_t id) { return id != padding; }));
  return text[count == 0 ? text.size() - 1 : count - 1];
}

}  // namespace longformer::models
