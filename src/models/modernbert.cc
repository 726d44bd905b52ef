#include "models/modernbert.h"

#include <array>
#include <cmath>

#include "core/error.h"
#include "models/config.h"
#include "models/config_limits.h"
#include "models/layer_kinds.h"

namespace longformer::models {
namespace {

using Json = nlohmann::ordered_json;
using formats::ConfigReader;

/// rope_parameters count; without them θ has a key for each kind, and rope_scaling is for both.
RotaryConfig rotation_of(const ConfigReader& config, LayerKind kind, EncoderConfig& model) {
  const double full = config.number("global_rope_theta", 160000);
  // A null stands for the other kind, an absent key for the default.
  const bool is_null = config.object().contains("local_rope_theta");
  const double sliding = config.number("local_rope_theta", is_null ? full : 10000);
  const RotaryConfig otherwise = {.theta = kind == kFullLayer ? full : sliding,
                                  .trained_positions = model.max_position_embeddings};
  config.note_asked("rope_scaling");
  if (auto own = rotation_of_kind(config, kind, otherwise, model.unused_keys)) {
    // `transformers` looks for "truncate" beside the kinds, where none may stand.
    own->truncates = true;
    return *own;
  }
  if (!config.has("rope_scaling")) return otherwise;
  // In `transformers` "type" alone changes nothing.
  Json scaling = config.at("rope_scaling");
  if (scaling.is_object()) scaling.erase("type");
  // Both kinds read it, and tell once what is not read.
  std::string told;
  return read_rotary(ConfigReader(scaling, config.name() + ": rope_scaling"), otherwise,
                     kind == kFullLayer ? model.unused_keys : told);
}

double rate(const ConfigReader& config, const std::string& key) {
  const double value = config.number(key, 0);
  require(value >= 0 && value <= 0.99, "{}: {}: expected a number from 0 to 0.99, found {}",
          config.name(), key, value);
  return value;
}

/// Layers whose results are added to others begin smaller the more there are.
InitialValues initial_values(const ConfigReader& config, const EncoderConfig& model) {
  const double range = model.recipe.initial.deviation;
  const double added = range / std::sqrt(2 * static_cast<double>(model.layers));
  const double last = 1 / std::sqrt(static_cast<double>(model.hidden_size));
  // A null stands for 3, an absent key for the default.
  const bool is_null = config.object().contains("initializer_cutoff_factor");
  const double cutoff = config.number("initializer_cutoff_factor", is_null ? 3 : 2);
  require(cutoff > 0, "{}: initializer_cutoff_factor: expected a number above 0, found {}",
          config.name(), cutoff);
  return {.deviation = range,
          .cutoff = cutoff,
          .clears_padding = false,
          .others = {{"output.dense", added},
                     {"head.dense", added},
                     {"decoder", added},
                     {"classifier", last}}};
}

}  // namespace

void read_modernbert(const ConfigReader& config, EncoderConfig& model) {
  const bool has_bias = config.boolean("mlp_bias", false);
  const Index every = config.integer("global_attn_every_n_layers", 3, 1, kMaxLayers);
  const auto usual_kind = [every](std::size_t layer) {
    return static_cast<Index>(layer) % every == 0 ? kFullLayer : kSlidingLayer;
  };
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
                  .rotation_of_layer = layer_kinds(config, model.patterns.size(), usual_kind),
                  .rotation_names = {kLayerKinds.begin(), kLayerKinds.end()},
                  .initial = initial_values(config, model),
                  .attention_output_dropout = model.attention_dropout,
                  .feed_forward_dropout = 0};
  for (const LayerKind kind : {kFullLayer, kSlidingLayer}) {
    model.recipe.rotations.push_back(rotation_of(config, kind, model));
  }
  require_whole_heads(config);
  model.activation_dropout = rate(config, "mlp_dropout");
  const Index reach = config.integer("local_attention", 128, 0, kMaxWindow) / 2;
  for (std::size_t layer = 0; layer < model.patterns.size(); ++layer) {
    if (model.recipe.rotation_of_layer[layer] == kFullLayer) continue;
    for (HeadPattern& head : model.patterns[layer]) head = {reach, reach, 1};
  }
  constexpr std::array<std::string_view, 2> kPooling = {"cls", "mean"};
  model.head = {
      .activation = activation_of(config, "classifier_activation"),
      .has_bias = config.boolean("classifier_bias", false),
      .pooling = static_cast<DocumentPooling>(config.choice("classifier_pooling", kPooling, "cls")),
      .decoder_bias = config.boolean("decoder_bias", true)};
  // Keys that change nothing here: of the tokenizer, of other ways to compute, of initial values.
  for (const char* key :
       {"layer_norm_eps", "bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id",
        "position_embedding_type", "repad_logits_with_grad", "reference_compile",
        "deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index"}) {
    config.note_asked(key);
  }
}

}  // namespace longformer::models
