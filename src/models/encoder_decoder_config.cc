#include "models/encoder_decoder_config.h"

#include <cmath>

#include "core/error.h"
#include "models/config_limits.h"
#include "models/registry.h"

namespace longformer::models {
namespace {

using formats::ConfigReader;
using Json = nlohmann::ordered_json;

/// The object with other names of keys in place of those that count less (spec.md B.1).
Json with_aliases(const ConfigReader& config, const Family& family) {
  Json object = config.object();
  for (const std::string_view alias : family.decoder->aliases) {
    const auto found = object.find(std::string(alias));
    if (found == object.end() || found->is_null()) continue;
    for (const auto& [usual, key] : family.encoder->keys) {
      if (usual == alias) object[std::string(key)] = Json(*found);
    }
  }
  return object;
}

}  // namespace

EncoderDecoderConfig parse_encoder_decoder(const ConfigReader& given) {
  require(given.has("model_type"), "{}: expected the key \"model_type\" ({}), found none",
          given.name(), encoder_decoder_names());
  const Family& family = family_of(given.string("model_type", ""), given.name());
  require(family.decoder.has_value(),
          "{}: model_type: expected an encoder with a decoder ({}), found {}", given.name(),
          encoder_decoder_names(), family.model_type);
  const Json object = with_aliases(given, family);
  const ConfigReader config(object, given.name());
  for (const char* key :
       {"normalize_before", "add_final_layer_norm", "static_position_embeddings"}) {
    require(!config.boolean(key, false), "{}: {}: expected false, found true: not supported",
            config.name(), key);
  }
  EncoderDecoderConfig model;
  model.encoder = parse_encoder(config, family);
  const EncoderTraits& traits = *family.encoder;
  if (family.model_type == "bart" && config.boolean("scale_embedding", false)) {
    model.encoder.embedding_scale = std::sqrt(static_cast<double>(model.hidden_size()));
  }
  model.encoder.activation_dropout = config.number("activation_dropout", 0);
  DecoderConfig& decoder = model.decoder;
  decoder.layers = config.integer("decoder_layers", traits.defaults.layers, 1, kMaxLayers);
  decoder.heads =
      config.integer("decoder_attention_heads", traits.defaults.heads, 1, model.hidden_size());
  require(model.hidden_size() % decoder.heads == 0,
          "{}: d_model: expected a multiple of decoder_attention_heads = {}, found {}",
          config.name(), decoder.heads, model.hidden_size());
  decoder.intermediate_size =
      config.integer("decoder_ffn_dim", traits.defaults.intermediate_size, 1, kMaxIntermediate);
  decoder.reserved_positions = traits.reserved_positions;
  decoder.position_rows =
      config.integer(std::string(family.decoder->positions_key), 1024, 1, kMaxPositions) +
      traits.reserved_positions;
  model.decoder_start_token_id =
      config.integer("decoder_start_token_id", 2, 0, model.encoder.vocab_size - 1);
  return model;
}

EncoderDecoderConfig read_encoder_decoder(const std::string& path) {
  const Json object = formats::read_json(path);
  return parse_encoder_decoder(ConfigReader(object, path));
}

}  // namespace longformer::models
