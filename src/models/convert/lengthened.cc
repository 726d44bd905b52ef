#include "models/convert/lengthened.h"

#include <cmath>
#include <string>

#include "core/error.h"
#include "models/registry.h"

namespace longformer::models {
namespace {

using Json = nlohmann::ordered_json;

/// The rotation with YaRN from its trained positions on.
RotaryConfig with_yarn(RotaryConfig rotation, double factor) {
  const double usual = usual_attention_factor(rotation.factor);
  const bool has_own =
      rotation.scaling == RotaryScaling::yarn && rotation.attention_factor != usual;
  rotation.scaling = RotaryScaling::yarn;
  rotation.factor = factor;
  if (!has_own) rotation.attention_factor = usual_attention_factor(factor);
  return rotation;
}

/// θ·s^(d/(d − 2)): the slowest pair turns through s times as many positions as before.
RotaryConfig with_larger_theta(RotaryConfig rotation, double factor, Index head_size) {
  const auto d = static_cast<double>(head_size);
  rotation.theta *= std::pow(factor, d / (d - 2));
  return rotation;
}

RotaryConfig lengthened(const RotaryConfig& rotation, const EncoderConfig& config, Index positions,
                        const ConvertOptions& options) {
  const double factor =
      static_cast<double>(positions) / static_cast<double>(rotation.trained_positions);
  const bool is_plain = rotation.scaling == RotaryScaling::none;
  if (options.rotary == "base") {
    require(is_plain, OptionName("rotary"),
            "expected yarn for a model whose rope_type is {}, found base",
            name_of(rotation.scaling));
    require(config.head_size() > 2, OptionName("rotary"),
            "expected yarn for heads of 2 numbers, found base");
    return factor > 1 ? with_larger_theta(rotation, factor, config.head_size()) : rotation;
  }
  require(is_plain || rotation.scaling == RotaryScaling::dynamic ||
              rotation.scaling == RotaryScaling::yarn,
          OptionName("max_positions", "max positions"),
          "expected none for a model whose rope_type is {}, found {}", name_of(rotation.scaling),
          positions);
  if (factor > 1) return with_yarn(rotation, factor);
  // Its angles follow from the longest document that config.json names.
  require(is_plain, OptionName("max_positions", "max positions"),
          "expected more than the {} positions of the training for a model whose rope_type is {}, "
          "found {}",
          rotation.trained_positions, name_of(rotation.scaling), positions);
  return rotation;
}

Json object_of(const RotaryConfig& rotation) {
  Json json = {{"rope_type", name_of(rotation.scaling)}, {"rope_theta", rotation.theta}};
  if (rotation.scaling == RotaryScaling::none) return json;
  json["factor"] = rotation.factor;
  if (rotation.scaling != RotaryScaling::yarn) return json;
  json["original_max_position_embeddings"] = rotation.trained_positions;
  json["beta_fast"] = rotation.beta_fast;
  json["beta_slow"] = rotation.beta_slow;
  if (rotation.attention_factor != usual_attention_factor(rotation.factor)) {
    json["attention_factor"] = rotation.attention_factor;
  }
  if (!rotation.truncates) json["truncate"] = false;
  return json;
}

bool sees_everything(const EncoderConfig& config, std::size_t kind) {
  for (Index layer = 0; layer < config.layers; ++layer) {
    const bool is_of_kind =
        config.recipe.rotation_of_layer[static_cast<std::size_t>(layer)] == kind;
    if (is_of_kind && config.pattern(layer)[0].reach_left == kernels::kUnlimitedReach) return true;
  }
  return false;
}

}  // namespace

Json lengthened_config(const Json& source, const EncoderConfig& config, Index max_tokens,
                       const ConvertOptions& options) {
  const std::string_view type = config.model_type();
  for (const auto& [older, key] : config.traits().older_keys) {
    require(!source.contains(std::string(older)),
            "config.json: expected the keys of transformers 5 for another length, found {}", older);
  }
  require(type != "new" || options.rotary == "base", OptionName("rotary"),
          "expected base for model_type new, whose code knows no YaRN");
  require(type != "neobert", OptionName("max_positions", "max positions"),
          "expected none for model_type neobert, whose code knows one way to turn, found {}",
          max_tokens);
  Json json = source;
  const Index positions = max_tokens + config.first_position();
  if (config.recipe.rotations.empty()) {
    require(options.rotary.empty(), OptionName("rotary"),
            "expected a model with rotary positions, found {}", type);
    json["max_position_embeddings"] = positions;
    // Distances share rows as before.
    const auto& distances = config.recipe.distance_keys;
    if (distances) json["max_relative_positions"] = distances->buckets.most;
    return json;
  }
  const auto& names = config.recipe.rotation_names;
  Json rotations = Json::object();
  for (std::size_t kind = 0; kind < config.recipe.rotations.size(); ++kind) {
    RotaryConfig rotation = config.recipe.rotations[kind];
    if (sees_everything(config, kind)) rotation = lengthened(rotation, config, positions, options);
    if (names.empty()) {
      rotations = object_of(rotation);
    } else {
      rotations[std::string(names[kind])] = object_of(rotation);
    }
  }
  for (const char* key : {"rope_theta", "rope_scaling", "global_rope_theta", "local_rope_theta",
                          "rope_local_base_freq"}) {
    json.erase(key);
  }
  // The code of before knows θ by a key of its own.
  if (type == "new") {
    json["rope_theta"] = rotations["rope_theta"];
  } else {
    json["rope_parameters"] = rotations;
  }
  json["max_position_embeddings"] = positions;
  return json;
}

}  // namespace longformer::models
