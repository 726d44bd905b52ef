// Targets of `convert` and the options that belong to each (docs/convert.md). A target is one row
// in targets.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "longformer/options.h"
#include "models/config.h"

namespace longformer::models {

struct ConversionTarget {
  /// The model_type of the result.
  std::string_view name;
  /// Options beside those of all targets.
  std::span<const std::string_view> options = {};
  /// The result reads as many tokens as the source unless told otherwise.
  bool keeps_length = false;
  /// For encoders that only attend otherwise: puts options into config.json, and what they and its
  /// defaults mean.
  void (*set)(const ConvertOptions& options, nlohmann::ordered_json& json) = nullptr;
  void (*write)(const EncoderConfig& config, nlohmann::ordered_json& json) = nullptr;
};

std::vector<std::string> conversion_targets();
/// Throws Error for a name that is no target.
const ConversionTarget& conversion_target(std::string_view name);

/// Keys of config.json that say how an encoder of one of these kinds attends; none for others.
std::vector<std::string> own_keys(const EncoderConfig& config);

}  // namespace longformer::models
