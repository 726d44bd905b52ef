// Layers of two kinds in config.json: those that see everything, and those with windows
// (docs/spec/modern-encoders.md#modernbert).
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "models/rotary_config.h"

namespace longformer::models {

enum LayerKind : std::size_t { kFullLayer, kSlidingLayer };
/// Their names in layer_types and in rope_parameters.
inline constexpr std::array<std::string_view, 2> kLayerKinds = {"full_attention",
                                                                "sliding_attention"};

/// The kind of each layer: layer_types, or `otherwise` of its number where the file has none.
/// Throws Error for other names and another number of them.
std::vector<std::size_t> layer_kinds(const formats::ConfigReader& config, std::size_t layers,
                                     const std::function<LayerKind(std::size_t)>& otherwise);

/// Rotary positions of a kind from its object in rope_parameters, or `otherwise` where they lack
/// it; absent without rope_parameters. Keys that are not read join `unused`. Throws Error for other
/// kinds.
std::optional<RotaryConfig> rotation_of_kind(const formats::ConfigReader& config, LayerKind kind,
                                             const RotaryConfig& otherwise, std::string& unused);

}  // namespace longformer::models
