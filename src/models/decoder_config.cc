#include "models/decoder_config.h"

#include "core/error.h"
#include "models/config.h"
#include "models/config_limits.h"
#include "models/registry.h"

namespace longformer::models {

DecoderConfig parse_decoder(const formats::ConfigReader& config, const EncoderConfig& encoder) {
  for (const char* key :
       {"normalize_before", "add_final_layer_norm", "static_position_embeddings"}) {
    require(!config.boolean(key, false), "{}: {}: expected false, found true: not supported",
            config.name(), key);
  }
  const EncoderTraits& traits = encoder.traits();
  DecoderConfig decoder;
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
      config.integer(std::string(encoder.family->decoder->positions_key), 1024, 1, kMaxPositions) +
      traits.reserved_positions;
  decoder.start_token_id = config.integer("decoder_start_token_id", 2, 0, encoder.vocab_size - 1);
  return decoder;
}

}  // namespace longformer::models
