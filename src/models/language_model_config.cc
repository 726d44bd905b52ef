#include "models/language_model_config.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <span>

#include "core/error.h"
#include "core/words.h"
#include "models/config_keys.h"
#include "models/config_limits.h"
#include "models/language_model_attentions.h"
#include "models/rates.h"

namespace longformer::models {
namespace {

using formats::ConfigReader;
using formats::shown;

double positive(const ConfigReader& config, const std::string& key, double otherwise) {
  const double value = config.number(key, otherwise);
  require(value > 0 && value <= 1, "{}: {}: expected a number above 0 and up to 1, found {}",
          config.name(), key, value);
  return value;
}

void read_sizes(const ConfigReader& config, LanguageModelConfig& model) {
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

constexpr std::array<std::string_view, 9> kPositions = {"relative",      "sinusoidal", "learned",
                                                        "infused",       "none",       "axial",
                                                        "distance_keys", "grid",       "tree_keys"};
constexpr std::array<std::string_view, 2> kInitializations = {"normal", "scaled"};

void read_block(const ConfigReader& config, LanguageModelConfig& model) {
  constexpr std::array<std::string_view, 2> kNorms = {"pre", "post"};
  const LmDefaults& usual = traits_of(model.attention).defaults;
  model.activation = config.has("hidden_act") ? activation_of(config) : usual.activation;
  model.post_norm = config.choice("norm_position", kNorms, usual.post_norm ? "post" : "pre") == 1;
  model.scales_embedding = config.boolean("embedding_scale", usual.scales_embedding);
  model.attention_bias = config.boolean("attention_bias", false);
  model.shares_relative_biases = config.boolean("share_relative_biases", true);
  model.final_layer_norm = config.boolean("final_layer_norm", !model.post_norm);
  model.dropout = rate_of(config, "dropout", 0.2);
  model.attention_dropout =
      rate_of(config, "attention_dropout", usual.drops_attention ? model.dropout : 0);
  model.layer_norm_eps = positive(config, "layer_norm_eps", 1e-5);
  model.initializer_range = positive(config, "initializer_range", 0.02);
  model.initialization = static_cast<Initialization>(
      config.choice("initialization", kInitializations,
                    kInitializations[static_cast<std::size_t>(usual.initialization)]));
  model.tie_word_embeddings = config.boolean("tie_word_embeddings", usual.ties_embeddings);
}

void read_positions(const ConfigReader& config, LanguageModelConfig& model) {
  const LmAttentionTraits& traits = traits_of(model.attention);
  const std::span<const Positions> possible = traits.positions;
  model.positions =
      static_cast<Positions>(config.choice("positions", kPositions, name_of(possible[0])));
  std::vector<std::string_view> names;
  for (const Positions one : possible) names.push_back(name_of(one));
  require(std::ranges::find(possible, model.positions) != possible.end(),
          "{}: positions: expected {} with the attention {}{}, found {}", config.name(),
          alternatives(names), traits.name, traits.reason, name_of(model.positions));
  if (model.positions == Positions::learned) {
    model.max_positions = config.integer(kMostPositions, 512, 1, kMaxPositions);
  }
  model.trained_length = config.integer(kTrainedLength, 0, 0, kMaxPositions);
}

}  // namespace

std::string_view name_of(Positions positions) {
  return kPositions[static_cast<std::size_t>(positions)];
}

std::string_view name_of(LmAttention attention) { return traits_of(attention).name; }

std::string name_in(Index layer, const std::string& tensor) {
  return fmt::format("layers.{}.{}", layer, tensor);
}

void check(const MemoryLengths& lengths, const LanguageModelConfig& config,
           const std::string& name) {
  require(
      lengths.segment >= 1 && lengths.memory >= 0 && lengths.compressed >= 0 && lengths.clamp >= 0,
      "{}: segment_length: expected 1 or more, and other lengths of 0 or more", name);
  require(!lengths.same_length || config.attention == LmAttention::recurrent,
          "{}: same_length: expected false unless the attention is recurrent, found {}", name,
          name_of(config.attention));
  require(!lengths.same_length || lengths.memory >= 1,
          "{}: same_length: expected a memory_length of 1 or more, found 0", name);
  require(lengths.compressed == 0 || config.is_compressive(),
          "{}: compressed_memory_length: expected 0 unless the attention is compressive, found {}",
          name, lengths.compressed);
}

std::vector<kernels::HeadPattern> LanguageModelConfig::pattern(Index layer) const {
  std::vector<kernels::HeadPattern> pattern;
  for (Index head = 0; head < heads; ++head) {
    const Index dilation = head + dilated_heads < heads ? 1 : dilations[at(layer)] + 1;
    pattern.push_back({windows[at(layer)], 0, dilation});
  }
  return pattern;
}

Index LanguageModelConfig::reach(Index layer) const {
  if (has_memory()) {
    return lengths.same_length
               ? lengths.memory - 1
               : lengths.memory + compression_rate * lengths.compressed + lengths.segment - 1;
  }
  const kernels::HeadPattern last = pattern(layer).back();
  return last.reach_left * last.dilation;
}

Index LanguageModelConfig::receptive_field() const {
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

namespace {

/// The bytes of the key `symbols`, each once.
std::vector<std::uint8_t> read_symbols(const ConfigReader& config) {
  std::vector<std::uint8_t> symbols;
  if (!config.has("symbols")) return symbols;
  const auto& list = config.at("symbols");
  const auto is_byte = [](const auto& value) {
    return value.is_number_integer() && value >= 0 && value <= 255;
  };
  require(list.is_array() && !list.empty() && std::all_of(list.begin(), list.end(), is_byte),
          "{}: symbols: expected a list of bytes from 0 to 255, found {}", config.name(),
          shown(list));
  for (const auto& value : list) {
    const auto byte = value.template get<std::uint8_t>();
    require(std::find(symbols.begin(), symbols.end(), byte) == symbols.end(),
            "{}: symbols: expected every byte once, found {} again", config.name(), byte);
    symbols.push_back(byte);
  }
  return symbols;
}

void read_vocabulary(const ConfigReader& config, const std::string& key,
                     LanguageModelConfig& model) {
  const std::string name = config.string(key, "bytes");
  model.symbols = read_symbols(config);
  model.reads_tokens = key == "vocabulary" && name == "tokenizer";
  if (model.reads_tokens) {
    require(model.symbols.empty(), "{}: symbols: expected none beside a tokenizer", config.name());
    model.vocab_size = config.integer("vocab_size", 0, 0, kMaxVocabulary);
    return;
  }
  require(key != "vocabulary" || name == "bytes" || name == "text8",
          "{}: vocabulary: expected bytes, text8 or tokenizer, found {}", config.name(),
          formats::quote(name));
  model.alphabet = text::alphabet(name);
  require(model.symbols.empty() || model.alphabet == text::Alphabet::bytes,
          "{}: symbols: expected the vocabulary bytes, found {}", config.name(), name);
  model.vocab_size =
      model.symbols.empty() ? text::alphabet_size(model.alphabet) : std::ssize(model.symbols);
  const Index vocabulary = config.integer("vocab_size", model.vocab_size, 1, kMaxHidden);
  require(vocabulary == model.vocab_size, "{}: vocab_size: expected {} for the {}, found {}",
          config.name(), model.vocab_size,
          model.symbols.empty() ? "vocabulary " + name : "list of symbols", vocabulary);
}

}  // namespace

std::string_view LanguageModelConfig::vocabulary() const {
  return reads_tokens ? "tokenizer" : text::name_of(alphabet);
}

LanguageModelConfig parse_language_model(const ConfigReader& config) {
  const std::string type = config.string("model_type", "");
  const bool is_old = type == kCharacterLmType;
  require(is_old || type == kLanguageModelType, "{}: model_type: expected {} or {}, found {}",
          config.name(), kLanguageModelType, kCharacterLmType, formats::quote(type));
  LanguageModelConfig model;
  std::vector<std::string_view> names, harmless = {kMostPositions};
  for (const LmAttentionTraits& traits : lm_attentions()) {
    names.push_back(traits.name);
    std::ranges::copy(traits.keys, std::back_inserter(harmless));
  }
  if (!is_old) {
    config.check_present("attention");
    model.attention = static_cast<LmAttention>(config.choice("attention", names, ""));
  }
  read_vocabulary(config, is_old ? "alphabet" : "vocabulary", model);
  read_sizes(config, model);
  read_block(config, model);
  read_positions(config, model);
  traits_of(model.attention).read(config, model);
  // A configuration for several kinds of attention may have the keys of all.
  std::ranges::copy(bookkeeping_keys(), std::back_inserter(harmless));
  formats::refuse_unused_keys(config, {.always = harmless});
  return model;
}

LanguageModelConfig read_language_model(const std::string& path) {
  const nlohmann::ordered_json json = formats::read_json(path);
  return parse_language_model(ConfigReader(json, path));
}

nlohmann::ordered_json to_json(const LanguageModelConfig& config) {
  nlohmann::ordered_json json;
  json["model_type"] = kLanguageModelType;
  json["attention"] = name_of(config.attention);
  json["vocabulary"] = config.vocabulary();
  if (!config.symbols.empty()) json["symbols"] = config.symbols;
  json["vocab_size"] = config.vocab_size;
  json["hidden_size"] = config.hidden_size;
  json["num_hidden_layers"] = config.layers;
  json["num_attention_heads"] = config.heads;
  json["head_dim"] = config.head_size;
  json["intermediate_size"] = config.intermediate_size;
  json["hidden_act"] = name_of(config.activation);
  json["norm_position"] = config.post_norm ? "post" : "pre";
  json["embedding_scale"] = config.scales_embedding;
  json["attention_bias"] = config.attention_bias;
  json["share_relative_biases"] = config.shares_relative_biases;
  json["positions"] = name_of(config.positions);
  if (config.max_positions > 0) json[kMostPositions] = config.max_positions;
  if (config.trained_length > 0) json[kTrainedLength] = config.trained_length;
  traits_of(config.attention).write(config, json);
  json["dropout"] = config.dropout;
  json["attention_dropout"] = config.attention_dropout;
  json["layer_norm_eps"] = config.layer_norm_eps;
  json["final_layer_norm"] = config.final_layer_norm;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["initializer_range"] = config.initializer_range;
  json["initialization"] = kInitializations[static_cast<std::size_t>(config.initialization)];
  return json;
}

}  // namespace longformer::models
