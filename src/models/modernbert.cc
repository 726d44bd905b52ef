#include "models/modernbert.h"

#include <array>

#include "core/error.h"
#include "models/config.h"
#include "models/config_limits.h"

namespace longformer::models {
namespace {

using Json = nlohmann::ordered_json;
using formats::ConfigReader;
using formats::shown;

enum Kind : std::size_t { kFull, kSliding };
constexpr std::array<std::string_view, 2> kKinds = {"full_attention", "sliding_attention"};

/// Kind of attention of each layer.
std::vector<std::size_t> kinds_of(const ConfigReader& config, Index layers) {
  std::vector<std::size_t> kinds;
  const Index every = config.integer("global_attn_every_n_layers", 3, 1, kMaxLayers);
  if (!config.has("layer_types")) {
    for (Index layer = 0; layer < layers; ++layer) {
      kinds.push_back(layer % every == 0 ? kFull : kSliding);
    }
    return kinds;
  }
  const Json& types = config.at("layer_types");
  require(types.is_array() && types.size() == static_cast<std::size_t>(layers),
          "{}: layer_types: expected {} names, one for each layer, found {}", config.name(), layers,
          shown(types));
  for (const Json& type : types) {
    require(type == kKinds[kFull] || type == kKinds[kSliding],
            "{}: layer_types: expected {} or {}, found {}", config.name(), kKinds[kFull],
            kKinds[kSliding], shown(type));
    kinds.push_back(type == kKinds[kFull] ? kFull : kSliding);
  }
  return kinds;
}

/// rope_parameters count; without them θ has a key for each kind, and rope_scaling is for both.
RotaryConfig rotation_of(const ConfigReader& config, Kind kind, Index positions) {
  const double full = config.number("global_rope_theta", 160000);
  // A null stands for the other kind, an absent key for the default.
  const bool is_null = config.object().contains("local_rope_theta");
  const double sliding = config.number("local_rope_theta", is_null ? full : 10000);
  const RotaryConfig otherwise = {.theta = kind == kFull ? full : sliding,
                                  .trained_positions = positions};
  const std::string name(kKinds[kind]);
  config.note_asked("rope_scaling");
  if (config.has("rope_parameters")) {
    const Json& both = config.at("rope_parameters");
    const ConfigReader kinds(both, config.name() + ": rope_parameters");
    for (const auto& [key, value] : both.items()) {
      require(key == kKinds[kFull] || key == kKinds[kSliding],
              "{}: rope_parameters: expected an object for {} and one for {}, found {}",
              config.name(), kKinds[kFull], kKinds[kSliding], formats::quote(key));
    }
    if (!kinds.has(name)) return otherwise;
    RotaryConfig own =
        read_rotary(ConfigReader(kinds.at(name), kinds.name() + "." + name), otherwise);
    // `transformers` looks for "truncate" beside the kinds, where none may stand.
    own.truncates = true;
    return own;
  }
  if (!config.has("rope_scaling")) return otherwise;
  // In `transformers` "type" alone changes nothing.
  Json scaling = config.at("rope_scaling");
  if (scaling.is_object()) scaling.erase("type");
  return read_rotary(ConfigReader(scaling, config.name() + ": rope_scaling"), otherwise);
}

double rate(const ConfigReader& config, const std::string& key) {
  const double value = config.number(key, 0);
  require(value >= 0 && value <= 0.99, "{}: {}: expected a number from 0 to 0.99, found {}",
          config.name(), key, value);
  return value;
}

}  // namespace

void read_modernbert(const ConfigReader& config, EncoderConfig& model) {
  const bool has_bias = config.boolean("mlp_bias", false);
  model.recipe = {.norm_first = true,
                  .first_norm_is_identity = true,
                  .has_final_norm = true,
                  .norm_bias = config.boolean("norm_bias", false),
                  .attention_bias = config.boolean("attention_bias", false),
                  .up_bias = has_bias,
                  .down_bias = has_bias,
                  .packs_projections = true,
                  .is_gated = true,
                  .has_position_table = false,
                  .has_type_table = false,
                  .rotation_of_layer = kinds_of(config, model.layers),
                  .rotation_names = {kKinds.begin(), kKinds.end()},
                  .attention_output_dropout = model.attention_dropout,
                  .feed_forward_dropout = 0};
  for (const Kind kind : {kFull, kSliding}) {
    model.recipe.rotations.push_back(rotation_of(config, kind, model.max_position_embeddings));
  }
  model.activation_dropout = rate(config, "mlp_dropout");
  const Index reach = config.integer("local_attention", 128, 0, kMaxWindow) / 2;
  for (std::size_t layer = 0; layer < model.patterns.size(); ++layer) {
    if (model.recipe.rotation_of_layer[layer] == kFull) continue;
    for (HeadPattern& head : model.patterns[layer]) head = {reach, reach, 1};
  }
  constexpr std::array<std::string_view, 2> kPooling = {"cls", "mean"};
  model.head = {.activation = activation_of(config, "classifier_activation"),
                .has_bias = config.boolean("classifier_bias", false),
                .pools_mean = config.choice("classifier_pooling", kPooling, "cls") == 1,
                .decoder_bias = config.boolean("decoder_bias", true)};
  // Keys that change nothing here: of the tokenizer, of other ways to compute, of initial values.
  for (const char* key : {"layer_norm_eps", "bos_token_id", "eos_token_id", "sep_token_id",
                          "cls_token_id", "position_embedding_type", "repad_logits_with_grad",
                          "reference_compile", "deterministic_flash_attn", "sparse_prediction",
                          "sparse_pred_ignore_index", "initializer_cutoff_factor"}) {
    config.note_asked(key);
  }
}

}  // namespace longformer::models
