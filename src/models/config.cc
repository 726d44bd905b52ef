#include "models/config.h"

#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "core/error.h"
#include "models/config_limits.h"
#include "models/original_config.h"

namespace longformer::models {
namespace {

using formats::ConfigReader;
using formats::quote;
using formats::shown;

struct ActivationName {
  std::string_view name;
  Activation activation;
};
/// The first name of each activation is the usual one; the others compute the same function.
constexpr std::array<ActivationName, 11> kActivations = {{
    {"gelu", Activation::gelu},
    {"gelu_new", Activation::gelu_tanh},
    {"relu", Activation::relu},
    {"silu", Activation::silu},
    {"tanh", Activation::tanh},
    {"gelu_python", Activation::gelu},
    {"gelu_fast", Activation::gelu_tanh},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_python_tanh", Activation::gelu_tanh},
    {"gelu_accurate", Activation::gelu_tanh},
    {"swish", Activation::silu},
}};

constexpr std::array<std::pair<ModelType, std::string_view>, 3> kModelTypes = {{
    {ModelType::longformer, "longformer"},
    {ModelType::bert, "bert"},
    {ModelType::roberta, "roberta"},
}};

/// What the configuration classes of `transformers` assume for absent keys, where they differ.
struct Defaults {
  Index vocab_size;
  Index pad_token_id;
};

Defaults defaults_of(ModelType type) {
  switch (type) {
    case ModelType::longformer:
      return {.vocab_size = 30522, .pad_token_id = 1};
    case ModelType::bert:
      return {.vocab_size = 30522, .pad_token_id = 0};
    case ModelType::roberta:
      return {.vocab_size = 50265, .pad_token_id = 1};
  }
  return {};
}

ModelType model_type_of(const ConfigReader& config) {
  const bool is_original = is_original_config(config.object(), config.name());
  require(
      !is_original,
      "{}: attention_window: expected it with model_type longformer only, found a Longformer of "
      "another form: make a folder of it with longformer convert",
      config.name());
  require(config.has("model_type"),
          "{}: expected the key \"model_type\" (longformer, bert or roberta), found none",
          config.name());
  const std::string name = config.string("model_type", "");
  for (const auto& [type, known] : kModelTypes) {
    if (name == known) return type;
  }
  require(name != "xlm-roberta" && name != "camembert",
          "{}: model_type: expected longformer, bert or roberta, found {}, whose SentencePiece "
          "tokenizer is not supported",
          config.name(), quote(name));
  fail("{}: model_type: expected longformer, bert or roberta, found {}", config.name(),
       quote(name));
}

Activation activation_of(const ConfigReader& config) {
  const std::string name = config.string("hidden_act", "gelu");
  for (const ActivationName& known : kActivations) {
    if (name == known.name) return known.activation;
  }
  fail("{}: hidden_act: expected gelu, gelu_new, relu, silu or tanh, found {}", config.name(),
       quote(name));
}

Index checked_window(const ConfigReader& config, const nlohmann::ordered_json& value) {
  const bool good =
      value.is_number_integer() && value <= kMaxWindow && value >= 2 && value.get<Index>() % 2 == 0;
  require(good, "{}: attention_window: expected even integers from 2 to {}, found {}",
          config.name(), kMaxWindow, shown(value));
  return value.get<Index>();
}

std::vector<Index> windows_of(const ConfigReader& config, Index layers) {
  const auto count = static_cast<std::size_t>(layers);
  if (!config.has("attention_window")) return std::vector<Index>(count, 512);
  const auto& value = config.at("attention_window");
  if (!value.is_array()) return std::vector<Index>(count, checked_window(config, value));
  require(value.size() == count,
          "{}: attention_window: expected one number, or {} for the {} layers, found {}",
          config.name(), layers, layers, shown(value));
  std::vector<Index> windows;
  for (const auto& window : value) windows.push_back(checked_window(config, window));
  return windows;
}

double number_within(const ConfigReader& config, const std::string& key, double otherwise,
                     double maximum) {
  const double value = config.number(key, otherwise);
  require(value >= 0 && value <= maximum, "{}: {}: expected a number from 0 to {}, found {}",
          config.name(), key, maximum, value);
  return value;
}

std::string architecture_of(const ConfigReader& config) {
  if (!config.has("architectures")) return "";
  const auto& value = config.at("architectures");
  require(value.is_array(), "{}: architectures: expected a list of names, found {}", config.name(),
          shown(value));
  if (value.empty()) return "";
  require(value[0].is_string(), "{}: architectures: expected a list of names, found {}",
          config.name(), shown(value));
  return value[0].get<std::string>();
}

/// The class that a key of id2label stands for; absent unless it is one of `count` classes.
std::optional<std::size_t> class_of(const std::string& key, std::size_t count) {
  std::size_t number = 0;
  const char* end = key.data() + key.size();
  const auto [stop, error] = std::from_chars(key.data(), end, number);
  if (error != std::errc() || stop != end || number >= count) return std::nullopt;
  return number;
}

/// As in `transformers`: id2label counts, num_labels only without it. A class without a name keeps
/// the one that `transformers` invents.
std::vector<std::string> labels_of(const ConfigReader& config) {
  const bool named = config.has("id2label");
  auto count = static_cast<std::size_t>(config.integer("num_labels", 2, 0, kMaxLabels));
  if (named) {
    const auto& names = config.at("id2label");
    require(names.is_object() && names.size() <= static_cast<std::size_t>(kMaxLabels),
            "{}: id2label: expected an object of class names, found {}", config.name(),
            shown(names));
    count = names.size();
  }
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
  if (!named) return labels;
  for (const auto& [key, name] : config.at("id2label").items()) {
    const auto label = class_of(key, count);
    if (label) labels[*label] = name.is_string() ? name.get<std::string>() : name.dump();
  }
  return labels;
}

std::string problem_type_of(const ConfigReader& config) {
  const std::string type = config.string("problem_type", "");
  for (const char* known :
       {"", "regression", "single_label_classification", "multi_label_classification"}) {
    if (type == known) return type;
  }
  fail(
      "{}: problem_type: expected regression, single_label_classification or "
      "multi_label_classification, found {}",
      config.name(), quote(type));
}

/// Settings that change what the model computes and that no encoder here has.
void check_supported(const ConfigReader& config) {
  const std::string positions = config.string("position_embedding_type", "absolute");
  require(positions == "absolute",
          "{}: position_embedding_type: expected \"absolute\", found {}: not supported",
          config.name(), quote(positions));
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    require(!config.boolean(key, false),
            "{}: {}: expected false, found true: decoders are not supported", config.name(), key);
  }
}

void check_consistent(const ConfigReader& config, const EncoderConfig& result) {
  require(result.hidden_size % result.heads == 0,
          "{}: hidden_size: expected a multiple of num_attention_heads = {}, found {}",
          config.name(), result.heads, result.hidden_size);
  require(result.max_tokens() >= 1,
          "{}: max_position_embeddings: expected more than {} (rows up to pad_token_id = {} are "
          "reserved), found {}",
          config.name(), result.first_position(), result.pad_token_id,
          result.max_position_embeddings);
}

}  // namespace

std::string_view name_of(ModelType type) {
  return kModelTypes[static_cast<std::size_t>(type)].second;
}

std::string_view name_of(Activation activation) {
  return kActivations[static_cast<std::size_t>(activation)].name;
}

EncoderConfig parse_config(const formats::ConfigReader& config) {
  EncoderConfig result;
  result.model_type = model_type_of(config);
  check_supported(config);
  const Defaults defaults = defaults_of(result.model_type);
  result.vocab_size = config.integer("vocab_size", defaults.vocab_size, 1, kMaxVocabulary);
  result.hidden_size = config.integer("hidden_size", 768, 1, kMaxHidden);
  result.layers = config.integer("num_hidden_layers", 12, 1, kMaxLayers);
  result.heads = config.integer("num_attention_heads", 12, 1, result.hidden_size);
  result.intermediate_size = config.integer("intermediate_size", 3072, 1, kMaxIntermediate);
  result.activation = activation_of(config);
  result.max_position_embeddings = config.integer("max_position_embeddings", 512, 1, kMaxPositions);
  result.type_vocab_size = config.integer("type_vocab_size", 2, 1, kMaxTypes);
  result.layer_norm_eps = number_within(config, "layer_norm_eps", 1e-12, 1.0);
  result.pad_token_id =
      config.integer("pad_token_id", defaults.pad_token_id, 0, result.vocab_size - 1);
  if (result.model_type == ModelType::longformer) {
    result.windows = windows_of(config, result.layers);
  }
  result.initializer_range = number_within(config, "initializer_range", 0.02, 100.0);
  result.hidden_dropout = number_within(config, "hidden_dropout_prob", 0.1, 0.99);
  result.attention_dropout = number_within(config, "attention_probs_dropout_prob", 0.1, 0.99);
  const bool own = result.model_type != ModelType::longformer && config.has("classifier_dropout");
  result.classifier_dropout =
      own ? number_within(config, "classifier_dropout", 0, 0.99) : result.hidden_dropout;
  result.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  result.architecture = architecture_of(config);
  if (result.model_type == ModelType::longformer) {
    // The class default stays even where it is no token of a small vocabulary.
    result.sep_token_id = config.integer("sep_token_id", 2, 0, kMaxVocabulary);
  }
  result.labels = labels_of(config);
  result.problem_type = problem_type_of(config);
  check_consistent(config, result);
  return result;
}

EncoderConfig read_config(const std::string& path) {
  const nlohmann::ordered_json object = formats::read_json(path);
  return parse_config(ConfigReader(object, path));
}

}  // namespace longformer::models
