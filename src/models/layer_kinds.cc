#include "models/layer_kinds.h"

#include <algorithm>

#include "core/error.h"

namespace longformer::models {

std::vector<std::size_t> layer_kinds(const formats::ConfigReader& config, std::size_t layers,
                                     const std::function<LayerKind(std::size_t)>& otherwise) {
  std::vector<std::size_t> kinds;
  if (!config.has("layer_types")) {
    for (std::size_t layer = 0; layer < layers; ++layer) kinds.push_back(otherwise(layer));
    return kinds;
  }
  const nlohmann::ordered_json& types = config.at("layer_types");
  require(types.is_array() && types.size() == layers,
          "{}: layer_types: expected {} names, one for each layer, found {}", config.name(), layers,
          formats::shown(types));
  for (const auto& type : types) {
    const std::string name = type.is_string() ? type.get<std::string>() : std::string();
    const auto kind = std::find(kLayerKinds.begin(), kLayerKinds.end(), name);
    require(kind != kLayerKinds.end(), "{}: layer_types: expected {} or {}, found {}",
            config.name(), kLayerKinds[kFullLayer], kLayerKinds[kSlidingLayer],
            formats::shown(type));
    kinds.push_back(static_cast<std::size_t>(kind - kLayerKinds.begin()));
  }
  return kinds;
}

std::optional<RotaryConfig> rotation_of_kind(const formats::ConfigReader& config, LayerKind kind,
                                             const RotaryConfig& otherwise, std::string& unused) {
  if (!config.has("rope_parameters")) return std::nullopt;
  const nlohmann::ordered_json& both = config.at("rope_parameters");
  const formats::ConfigReader kinds(both, config.name() + ": rope_parameters");
  for (const auto& [key, value] : both.items()) {
    require(std::find(kLayerKinds.begin(), kLayerKinds.end(), key) != kLayerKinds.end(),
            "{}: rope_parameters: expected an object for {} and one for {}, found {}",
            config.name(), kLayerKinds[kFullLayer], kLayerKinds[kSlidingLayer],
            formats::quote(key));
  }
  const std::string name(kLayerKinds[kind]);
  if (!kinds.has(name)) return otherwise;
  const formats::ConfigReader own(kinds.at(name), kinds.name() + "." + name);
  return read_rotary(own, otherwise, unused);
}

}  // namespace longformer::models
