#include "models/convert/targets.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/words.h"
#include "models/block_families.h"
#include "models/language_model_config.h"

namespace longformer::models {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::string_view;

constexpr std::array<Names, 7> kOfLongformer = {
    "max_positions",        "window", "dilation", "dilated_heads",
    "cross_attention_rows", "rotary", "dtype"};

template <typename Value>
void add(Json& json, const char* key, const Value& value) {
  if (value) json[key] = *value;
}
void add(Json& json, const char* key, const std::string& value) {
  if (!value.empty()) json[key] = value;
}

constexpr std::array<Names, 7> kOfLinformer = {"max_positions",
                                               "dtype",
                                               "seed",
                                               "projected_length",
                                               "projection",
                                               "projection_sharing",
                                               "projection_initialization"};

void set_linformer(const ConvertOptions& options, Json& json) {
  add(json, "projected_length", options.projected_length);
  add(json, "projection", options.projection);
  add(json, "projection_sharing", options.projection_sharing);
  json["projection_initialization"] = "pooled";
  add(json, "projection_initialization", options.projection_initialization);
}

void write_linformer_keys(const EncoderConfig& config, Json& json) {
  write_linformer(*config.linformer, json);
}

constexpr std::array<Names, 6> kOfPerformer = {
    "max_positions", "dtype", "seed", "features", "feature_kernel", "feature_epsilon"};

void set_performer(const ConvertOptions& options, Json& json) {
  add(json, "features", options.features);
  add(json, "feature_kernel", options.feature_kernel);
  add(json, "feature_epsilon", options.feature_epsilon);
}

void write_performer_keys(const EncoderConfig& config, Json& json) {
  write_features(*config.features, json);
}

constexpr std::array<Names, 4> kOfBlockwise = {"max_positions", "dtype", "blocks", "block_heads"};

void set_blockwise(const ConvertOptions& options, Json& json) {
  add(json, "blocks", options.blocks);
  if (!options.block_heads.empty()) json["block_heads"] = options.block_heads;
}

void write_blockwise_keys(const EncoderConfig& config, Json& json) {
  write_shifted_blocks(*config.recipe.shifted_blocks, json);
}

constexpr std::array<Names, 6> kOfSparse = {"max_positions", "dtype",   "pattern",
                                            "stride",        "summary", "integration"};

void set_sparse(const ConvertOptions& options, Json& json) {
  json["pattern"] = "strided";
  json["stride"] = 64;
  add(json, "pattern", options.pattern);
  add(json, "stride", options.stride);
  add(json, "summary", options.summary);
  add(json, "integration", options.integration);
}

void write_sparse_keys(const EncoderConfig& config, Json& json) {
  write_sparse(*config.recipe.sparse, json);
}

constexpr std::array<Names, 2> kOfBigBird = {"max_positions", "dtype"};

/// Its layers have no keys of their own here: the class defaults.
void set_big_bird(const ConvertOptions&, Json&) {}
void write_big_bird_keys(const EncoderConfig&, Json&) {}

constexpr std::array<ConversionTarget, 7> kTargets = {{
    {.name = "longformer", .options = kOfLongformer},
    {.name = "linformer",
     .options = kOfLinformer,
     .keeps_length = true,
     .set = set_linformer,
     .write = write_linformer_keys},
    {.name = "performer",
     .options = kOfPerformer,
     .keeps_length = true,
     .set = set_performer,
     .write = write_performer_keys},
    {.name = "blockwise",
     .options = kOfBlockwise,
     .keeps_length = true,
     .set = set_blockwise,
     .write = write_blockwise_keys},
    {.name = "sparse",
     .options = kOfSparse,
     .keeps_length = true,
     .set = set_sparse,
     .write = write_sparse_keys},
    {.name = "big_bird", .options = kOfBigBird, .set = set_big_bird, .write = write_big_bird_keys},
    {.name = kLanguageModelType},
}};

}  // namespace

std::vector<std::string> conversion_targets() {
  std::vector<std::string> names;
  for (const ConversionTarget& target : kTargets) names.emplace_back(target.name);
  return names;
}

std::vector<std::string> own_keys(const EncoderConfig& config) {
  std::vector<std::string> keys;
  const auto* found = std::ranges::find(kTargets, config.model_type(), &ConversionTarget::name);
  if (found == kTargets.end() || found->write == nullptr) return keys;
  Json json;
  found->write(config, json);
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

const ConversionTarget& conversion_target(std::string_view name) {
  const auto* found = std::ranges::find(kTargets, name, &ConversionTarget::name);
  const std::vector<std::string> names = conversion_targets();
  require(found != kTargets.end(), "target: expected {}, found {}",
          alternatives(std::vector<std::string_view>(names.begin(), names.end())),
          formats::quote(name));
  return *found;
}

}  // namespace longformer::models
