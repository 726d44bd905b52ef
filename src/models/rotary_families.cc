#include "models/rotary_families.h"

#include <string>
#include <vector>

#include "core/error.h"
#include "models/config.h"

namespace longformer::models {
namespace {

using formats::ConfigReader;

/// All layers are of one kind.
void add_rotation(const RotaryConfig& rotation, EncoderConfig& model) {
  model.recipe.has_position_table = false;
  model.recipe.packs_projections = true;
  model.recipe.rotations = {rotation};
  model.recipe.rotation_of_layer.assign(model.patterns.size(), 0);
}

void check_head_size(const ConfigReader& config, const EncoderConfig& model) {
  const Index found = config.integer("head_dim", model.head_size(), 1, model.hidden_size);
  require(found == model.head_size(), "{}: head_dim: expected {} = hidden_size / heads, found {}",
          config.name(), model.head_size(), found);
}

/// Throws Error unless the key is absent or has the value.
template <typename T>
void require_value(const ConfigReader& config, const char* key, const T& expected) {
  config.note_asked(key);
  if (!config.has(key)) return;
  require(config.at(key) == expected, "{}: {}: expected {}, found {}: not supported", config.name(),
          key, expected, formats::shown(config.at(key)));
}

/// Keys of nomic_bert before `transformers` had it.
void read_old_nomic_bert(const ConfigReader& config, EncoderConfig& model) {
  for (const char* key : {"prenorm", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "causal",
                          "parallel_block", "use_rms_norm", "rotary_emb_interleaved"}) {
    require_value(config, key, false);
  }
  require_value(config, "rotary_emb_fraction", 1.0);
  require_value(config, "activation_function", "swiglu");
  for (const char* key :
       {"embd_pdrop", "pad_vocab_size_multiple", "rotary_emb_scale_base", "fused_bias_fc",
        "fused_dropout_add_ln", "use_flash_attn", "use_xentropy", "summary_first_dropout"}) {
    config.note_asked(key);
  }
  RotaryConfig rotation = {
      .theta = config.number("rotary_emb_base", 1000),
      .trained_positions = config.integer("max_trained_positions", model.max_position_embeddings, 1,
                                          model.max_position_embeddings)};
  if (config.has("rotary_scaling_factor")) {
    rotation.scaling = RotaryScaling::dynamic;
    rotation.factor = config.number("rotary_scaling_factor", 1);
  }
  config.note_asked("rotary_scaling_factor");
  add_rotation(rotation, model);
}

}  // namespace

RotaryConfig rotation_of(const ConfigReader& config, EncoderConfig& model, double theta) {
  require_whole_heads(config);
  const RotaryConfig otherwise = {.theta = config.number("rope_theta", theta),
                                  .trained_positions = model.max_position_embeddings};
  config.note_asked("rope_scaling");
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!config.has(key)) continue;
    const std::string name = config.name() + ": " + key;
    return read_rotary(ConfigReader(config.at(key), name), otherwise, model.unused_keys);
  }
  return otherwise;
}

void read_nomic_bert(const ConfigReader& config, EncoderConfig& model) {
  check_head_size(config, model);
  if (!config.has("hidden_act")) model.activation = Activation::silu;
  if (config.has("n_embd")) {
    read_old_nomic_bert(config, model);
  } else {
    add_rotation(rotation_of(config, model, 1000), model);
  }
  model.recipe.attention_bias = false;
  model.recipe.up_bias = false;
  model.recipe.down_bias = false;
  model.recipe.is_gated = true;
  model.recipe.splits_gate = true;
  model.recipe.activates_second = true;
}

void read_gte(const ConfigReader& config, EncoderConfig& model) {
  check_head_size(config, model);
  require_value(config, "layer_norm_type", "layer_norm");
  require_value(config, "pack_qkv", true);
  require_value(config, "logn_attention_scale", false);
  for (const char* key :
       {"logn_attention_clip1", "unpad_inputs", "use_memory_efficient_attention"}) {
    config.note_asked(key);
  }
  add_rotation(rotation_of(config, model, 160000), model);
  model.recipe.up_bias = false;
  model.recipe.is_gated = true;
  model.recipe.activates_second = true;
  model.activation_dropout = model.hidden_dropout;
}

void read_jina_v3(const ConfigReader& config, EncoderConfig& model) {
  check_head_size(config, model);
  add_rotation(rotation_of(config, model, 20000), model);
}

}  // namespace longformer::models
