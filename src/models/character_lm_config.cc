#include "models/character_lm_config.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "models/config_limits.h"

namespace longformer::models {
namespace {

using formats::ConfigReader;
using formats::shown;

constexpr Index kMaxReach = Index{1} << 24;

double rate(const ConfigReader& config, const std::string& key, double otherwise) {
  const double value = config.number(key, otherwise);
  require(value >= 0 && value < 1, "{}: {}: expected a number from 0 to below 1, found {}",
          config.name(), key, value);
  return value;
}

double positive(const ConfigReader& config, const std::string& key, double otherwise) {
  const double value = config.number(key, otherwise);
  require(value > 0 && value <= 1, "{}: {}: expected a number above 0 and up to 1, found {}",
          config.name(), key, value);
  return value;
}

void read_sizes(const ConfigReader& config, CharacterLmConfig& model) {
  model.hidden_size = config.integer("hidden_size", 512, 2, kMaxHidden);
  require(model.hidden_size % 2 == 0,
          "{}: hidden_size: expected an even number, as sines and cosines share it, found {}",
          config.name(), model.hidden_size);
  model.layers = config.integer("num_hidden_layers", 12, 1, kMaxLayers);
  model.heads = config.integer("num_attention_heads", 8, 1, kMaxHidden);
  const bool divides = model.hidden_size % model.heads == 0;
  require(divides || config.has("head_dim"),
          "{}: head_dim: expected it, as {} heads do not divide hidden_size {}, found none",
          config.name(), model.heads, model.hidden_size);
  model.head_size = config.integer("head_dim", model.hidden_size / model.heads, 1, kMaxHidden);
  model.intermediate_size =
      config.integer("intermediate_size", 4 * model.hidden_size, 1, kMaxIntermediate);
}

void read_windows(const ConfigReader& config, CharacterLmConfig& model) {
  model.windows = layer_numbers(config, "windows", model.layers, 1);
  model.dilations.assign(static_cast<std::size_t>(model.layers), 0);
  if (config.has("dilations")) {
    model.dilations = layer_numbers(config, "dilations", model.layers, 0);
  }
  model.dilated_heads =
      config.integer("dilated_heads", std::min<Index>(2, model.heads), 0, model.heads);
  for (Index layer = 0; layer < model.layers; ++layer) {
    require(model.reach(layer) <= kMaxReach,
            "{}: windows and dilations of layer {}: expected a reach of at most {}, found {}",
            config.name(), layer, kMaxReach, model.reach(layer));
  }
}

}  // namespace

std::vector<kernels::HeadPattern> CharacterLmConfig::pattern(Index layer) const {
  std::vector<kernels::HeadPattern> pattern;
  for (Index head = 0; head < heads; ++head) {
    const Index dilation = head + dilated_heads < heads ? 1 : dilations[at(layer)] + 1;
    pattern.push_back({windows[at(layer)], 0, dilation});
  }
  return pattern;
}

Index CharacterLmConfig::reach(Index layer) const {
  const kernels::HeadPattern last = pattern(layer).back();
  return last.reach_left * last.dilation;
}

Index CharacterLmConfig::receptive_field() const {
  Index sum = 0;
  for (Index layer = 0; layer < layers; ++layer) sum += reach(layer);
  return sum;
}

std::vector<Index> layer_numbers(const ConfigReader& config, const std::string& key, Index layers,
                                 Index least) {
  const auto& value = config.at(key);
  require(value.is_array() && value.size() == static_cast<std::size_t>(layers),
          "{}: {}: expected a list of {} numbers, one for each layer, found {}", config.name(), key,
          layers, shown(value));
  std::vector<Index> numbers;
  for (const auto& number : value) {
    const bool good =
        number.is_number_integer() && number >= least && number <= std::int64_t{kMaxReach};
    require(good, "{}: {}: expected integers from {} to {}, found {}", config.name(), key, least,
            kMaxReach, shown(number));
    numbers.push_back(number.get<Index>());
  }
  return numbers;
}

CharacterLmConfig parse_character_lm(const ConfigReader& config) {
  const std::string type = config.string("model_type", "");
  require(type == kCharacterLmType, "{}: model_type: expected {}, found {}", config.name(),
          kCharacterLmType, formats::quote(type));
  CharacterLmConfig model;
  model.alphabet = text::alphabet(config.string("alphabet", "bytes"));
  model.vocab_size = text::alphabet_size(model.alphabet);
  const Index vocabulary = config.integer("vocab_size", model.vocab_size, 1, kMaxHidden);
  require(vocabulary == model.vocab_size,
          "{}: vocab_size: expected {} for the alphabet {}, found {}", config.name(),
          model.vocab_size, text::name_of(model.alphabet), vocabulary);
  read_sizes(config, model);
  read_windows(config, model);
  model.dropout = rate(config, "dropout", 0.2);
  model.attention_dropout = rate(config, "attention_dropout", 0);
  model.layer_norm_eps = positive(config, "layer_norm_eps", 1e-5);
  model.initializer_range = positive(config, "initializer_range", 0.02);
  model.final_layer_norm = config.boolean("final_layer_norm", true);
  model.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return model;
}

CharacterLmConfig read_character_lm(const std::string& path) {
  const nlohmann::ordered_json json = formats::read_json(path);
  return parse_character_lm(ConfigReader(json, path));
}

nlohmann::ordered_json to_json(const CharacterLmConfig& config) {
  nlohmann::ordered_json json;
  json["model_type"] = kCharacterLmType;
  json["alphabet"] = text::name_of(config.alphabet);
  json["vocab_size"] = config.vocab_size;
  json["hidden_size"] = config.hidden_size;
  json["num_hidden_layers"] = config.layers;
  json["num_attention_heads"] = config.heads;
  json["head_dim"] = config.head_size;
  json["intermediate_size"] = config.intermediate_size;
  json["windows"] = config.windows;
  json["dilations"] = config.dilations;
  json["dilated_heads"] = config.dilated_heads;
  json["dropout"] = config.dropout;
  json["attention_dropout"] = config.attention_dropout;
  json["layer_norm_eps"] = config.layer_norm_eps;
  json["final_layer_norm"] = config.final_layer_norm;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["initializer_range"] = config.initializer_range;
  return json;
}

}  // namespace longformer::models
