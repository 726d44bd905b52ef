#include "models/config.h"

#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/words.h"
#include "models/adapter.h"
#include "models/byte_encoder.h"
#include "models/config_keys.h"
#include "models/config_limits.h"
#include "models/convert/led.h"
#include "models/convert/original_config.h"
#include "models/edges.h"
#include "models/int8_layers.h"
#include "models/registry.h"
#include "models/static_table.h"

namespace longformer::models {
namespace {

using Json = nlohmann::ordered_json;
using formats::ConfigReader;
using formats::quote;
using formats::shown;

struct ActivationName {
  std::string_view name;
  Activation activation;
};
/// The first name of each activation is the usual one; the others compute the same function.
constexpr std::array<ActivationName, 13> kActivations = {{
    {"gelu", Activation::gelu},
    {"gelu_new", Activation::gelu_tanh},
    {"relu", Activation::relu},
    {"silu", Activation::silu},
    {"tanh", Activation::tanh},
    {"quick_gelu", Activation::quick_gelu},
    {"mish", Activation::mish},
    {"gelu_python", Activation::gelu},
    {"gelu_fast", Activation::gelu_tanh},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_python_tanh", Activation::gelu_tanh},
    {"gelu_accurate", Activation::gelu_tanh},
    {"swish", Activation::silu},
}};

const Family& encoder_family(const ConfigReader& config) {
  const bool is_original = is_original_config(config.object(), config.name()) ||
                           is_original_led(config.object(), config.name());
  require(
      !is_original,
      "{}: attention_window: expected it with model_type longformer only, found a Longformer of "
      "another form: make a folder of it with longformer convert",
      config.name());
  require(config.has("model_type"), "{}: expected the key \"model_type\" ({}), found none",
          config.name(), encoder_names());
  const Family& family = models::family_of(config.string("model_type", ""), config.name(),
                                           config.string("base_model_type", ""));
  require(family.encoder.has_value(),
          "{}: model_type: expected an encoder ({}), found {}, a language model, which generates "
          "text and is evaluated on text",
          config.name(), encoder_names(), family.model_type);
  return told_apart(family, config);
}

/// The object with other names of keys in place of those that count less
/// (docs/spec/led-and-generation.md#b1).
Json with_aliases(const ConfigReader& config, const Family& family) {
  Json object = config.object();
  for (const auto& [before, now] : family.encoder->older_keys) {
    if (!config.has(std::string(before))) continue;
    if (!config.has(std::string(now))) object[std::string(now)] = config.at(std::string(before));
  }
  for (const std::string_view alias : family.encoder->aliases) {
    if (!config.has(std::string(alias))) continue;
    for (const auto& [usual, key] : family.encoder->keys) {
      if (usual == alias) object[std::string(key)] = Json(config.at(std::string(alias)));
    }
  }
  return object;
}

/// One number for all layers, or a list of one value for each.
std::vector<Json> layer_values(const ConfigReader& config, const std::string& key, Index layers) {
  const auto count = static_cast<std::size_t>(layers);
  const Json& value = config.at(key);
  if (!value.is_array()) return std::vector<Json>(count, value);
  require(value.size() == count, "{}: {}: expected one number, or {} for the {} layers, found {}",
          config.name(), key, layers, layers, shown(value));
  return {value.begin(), value.end()};
}

Index checked_window(const ConfigReader& config, const Json& value) {
  const bool good =
      value.is_number_integer() && value <= kMaxWindow && value >= 2 && value.get<Index>() % 2 == 0;
  require(good, "{}: attention_window: expected even integers from 2 to {}, found {}",
          config.name(), kMaxWindow, shown(value));
  return value.get<Index>();
}

Index checked_dilation(const ConfigReader& config, const Json& value) {
  require(value.is_number_integer() && value >= 1 && value <= kMaxDilation,
          "{}: attention_dilation: expected integers from 1 to {}, found {}", config.name(),
          kMaxDilation, shown(value));
  return value.get<Index>();
}

/// Windows of both sides together, as `transformers` has them, and the step between the keys of a
/// window for each layer, or each head of each layer, as the first implementation has it.
void read_windows(const ConfigReader& config, EncoderConfig& model) {
  std::vector<Json> windows(static_cast<std::size_t>(model.layers), 512);
  if (config.has("attention_window")) {
    windows = layer_values(config, "attention_window", model.layers);
  }
  std::vector<Json> dilations(windows.size(), 1);
  if (config.has("attention_dilation")) {
    dilations = layer_values(config, "attention_dilation", model.layers);
  }
  const auto heads = static_cast<std::size_t>(model.heads);
  for (std::size_t layer = 0; layer < windows.size(); ++layer) {
    const Index reach = checked_window(config, windows[layer]) / 2;
    const Json& dilation = dilations[layer];
    const Json of_heads = dilation.is_array() ? dilation : Json(std::vector<Json>(heads, dilation));
    require(of_heads.size() == heads,
            "{}: attention_dilation: expected one number, or {} for the {} heads, of layer {}, "
            "found {}",
            config.name(), heads, heads, layer, shown(dilation));
    std::vector<HeadPattern>& pattern = model.patterns.emplace_back();
    for (const Json& one : of_heads) {
      pattern.push_back({reach, reach, checked_dilation(config, one)});
    }
  }
}

double number_within(const ConfigReader& config, const std::string& key, double otherwise,
                     double maximum) {
  const double value = config.number(key, otherwise);
  require(value >= 0 && value <= maximum, "{}: {}: expected a number from 0 to {}, found {}",
          config.name(), config.renamed(key), maximum, value);
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
  const auto number = parsed_number<std::size_t>(key);
  return number && *number < count ? number : std::nullopt;
}

/// The rule of `transformers`: id2label counts, unless num_labels names another number; then no
/// name counts. A class without a name keeps the one that `transformers` invents.
std::vector<std::string> labels_of(const ConfigReader& config) {
  bool is_named = config.has("id2label");
  auto count = static_cast<std::size_t>(config.integer("num_labels", 2, 0, kMaxLabels));
  if (is_named) {
    const auto& names = config.at("id2label");
    require(names.is_object() && names.size() <= static_cast<std::size_t>(kMaxLabels),
            "{}: id2label: expected an object of class names, found {}", config.name(),
            shown(names));
    is_named = !config.has("num_labels") || names.size() == count;
    if (is_named) count = names.size();
  }
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
  if (!is_named) return labels;
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
void check_supported(const ConfigReader& config, const Family& family) {
  check_quantization(config);
  const EncoderTraits& traits = *family.encoder;
  const std::string expected_type(traits.position_type);
  const std::string positions = config.string("position_embedding_type", expected_type);
  require(positions == expected_type,
          "{}: position_embedding_type: expected {}, found {}: not supported", config.name(),
          quote(expected_type), quote(positions));
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    // A model with both halves is no decoder, whatever the file says.
    require(!config.boolean(key, false) || family.decoder, "{}: {}: expected false, found true: {}",
            config.name(), key, traits.decoder_advice);
  }
  for (const auto& [key, expected] : traits.fixed_keys) {
    const std::string found = config.string(std::string(key), std::string(expected));
    require(found == expected, "{}: {}: expected {}, found {}: not supported", config.name(), key,
            expected, quote(found));
  }
}

HeadDropout head_dropout(const ConfigReader& config, const EncoderConfig& model) {
  const EncoderTraits& traits = model.traits();
  const auto rate = [&](std::string_view key, double otherwise) {
    return key.empty() ? otherwise : number_within(config, std::string(key), otherwise, 0.99);
  };
  const double layers = model.hidden_dropout;
  const double documents =
      rate(traits.document_dropout.key, traits.document_dropout.otherwise.value_or(layers));
  return {
      .documents = documents,
      .choices = rate(traits.choice_dropout.key, traits.choice_dropout.otherwise.value_or(layers)),
      .tokens = traits.token_dropout
                    ? rate(traits.token_dropout->key, traits.token_dropout->otherwise.value_or(0))
                : traits.tokens_drop_as_layers ? layers
                                               : documents,
      .spans = rate(traits.span_dropout.key, traits.span_dropout.otherwise.value_or(0))};
}

/// The factor of token rows: √D where a family can have it and the configuration wants it.
double scale_of(const ConfigReader& config, const EncoderConfig& model) {
  const bool scales = model.family->decoder && model.family->decoder->can_scale_embeddings &&
                      config.boolean("scale_embedding", model.family->decoder->scales_embeddings);
  return scales ? std::sqrt(static_cast<double>(model.hidden_size)) : 1;
}

void check_consistent(const ConfigReader& config, const EncoderConfig& result) {
  require(result.recipe.head_size || result.hidden_size % result.heads == 0,
          "{}: {}: expected a multiple of {} = {}, found {}", config.name(),
          config.renamed("hidden_size"), config.renamed("num_attention_heads"), result.heads,
          result.hidden_size);
  require(result.max_tokens() >= 1,
          "{}: max_position_embeddings: expected more than {} (rows up to pad_token_id = {} are "
          "reserved), found {}",
          config.name(), result.first_position(), result.pad_token_id,
          result.max_position_embeddings);
}

std::map<std::string, HeadSettings> head_settings_of(const ConfigReader& config) {
  std::map<std::string, HeadSettings> settings;
  for (const auto& [key, value] : config.object().items()) {
    if (!key.ends_with("_head") || !value.is_object()) continue;
    settings[key] = {config.name(), config.at(key)};
  }
  return settings;
}

/// A family of our own has no other readers, so that a key which is not read is a mistake.
void note_unused_keys(const ConfigReader& config, EncoderConfig& model) {
  const formats::HarmlessKeys& harmless = harmless_config_keys();
  if (!model.family->base.empty()) formats::refuse_unused_keys(config, harmless);
  const std::string note = formats::unused_keys_note(config, harmless);
  if (!note.empty() && !model.unused_keys.empty()) model.unused_keys += "; ";
  model.unused_keys += note;
}

/// Rows of the table of token types.
Index read_token_types(const ConfigReader& config, const EncoderDefaults& defaults,
                       EncoderConfig& model) {
  const EncoderTraits& traits = model.traits();
  model.recipe.has_type_table = traits.has_token_types;
  model.type_vocab_size = 2;
  if (!traits.has_token_types) return model.type_vocab_size;
  const Index least = traits.read == nullptr ? 1 : 0;
  const Index types = config.integer("type_vocab_size", defaults.types, least, kMaxTypes);
  if (types == 0) model.recipe.has_type_table = false;
  if (types > 0) model.type_vocab_size = types;
  return types;
}

/// Only families of today, and DeBERTa, may go without.
void check_token_types(const ConfigReader& config, Index types, const EncoderDefaults& defaults,
                       const EncoderConfig& model) {
  const bool may_lack_them = !model.recipe.has_position_table || defaults.types == 0;
  require(types > 0 || may_lack_them, "{}: {}: expected an integer from 1 to {}, found 0",
          config.name(), config.renamed("type_vocab_size"), kMaxTypes);
}

}  // namespace

Activation activation_of(const ConfigReader& config, const std::string& key,
                         const std::string& otherwise) {
  const std::string name = config.string(key, otherwise);
  for (const ActivationName& known : kActivations) {
    if (name == known.name) return known.activation;
  }
  fail("{}: {}: expected gelu, gelu_new, relu, silu, tanh, quick_gelu or mish, found {}",
       config.name(), config.renamed(key), quote(name));
}

std::string_view name_of(Activation activation) {
  return kActivations[static_cast<std::size_t>(activation)].name;
}

const EncoderTraits& EncoderConfig::traits() const { return *family->encoder; }

std::string_view EncoderConfig::model_type() const { return family->model_type; }

bool EncoderConfig::has_global_attention() const {
  return has_global_projections() || (!recipe.is_causal && !windows().empty());
}

bool EncoderConfig::has_global_projections() const { return traits().has_global_attention; }

std::vector<Index> EncoderConfig::windows() const {
  std::vector<Index> windows;
  bool has_one = false;
  for (const auto& heads : patterns) {
    const bool sees_all = heads[0].reach_left == kernels::kUnlimitedReach;
    has_one = has_one || !sees_all;
    windows.push_back(sees_all ? 0 : heads[0].reach_left + heads[0].reach_right);
  }
  return has_one ? windows : std::vector<Index>();
}

Index EncoderConfig::position_limit() const {
  return recipe.has_position_table ? max_position_embeddings : kMaxPositions;
}

Index EncoderConfig::first_position() const {
  return traits().positions_follow_padding ? pad_token_id + 1 : traits().reserved_positions;
}

EncoderConfig parse_config(const ConfigReader& original) {
  const Family& family = encoder_family(original);
  const Json object = with_aliases(original, family);
  const ConfigReader given(object, original);
  EncoderConfig model;
  model.family = &family;
  const EncoderTraits& traits = model.traits();
  const ConfigReader config(object, original, traits.keys);
  check_supported(config, family);
  const EncoderDefaults defaults = with_vocabulary(config, family);
  model.vocab_size = config.integer("vocab_size", defaults.vocab_size, 1, kMaxVocabulary);
  model.hidden_size = config.integer("hidden_size", defaults.hidden_size, 1, kMaxHidden);
  model.embedding_size = model.hidden_size;
  if (traits.projects_embeddings) {
    model.embedding_size = config.integer("embedding_size", 128, 1, kMaxHidden);
  }
  model.layers = config.integer("num_hidden_layers", defaults.layers, 1, kMaxLayers);
  model.heads = config.integer("num_attention_heads", defaults.heads, 1, model.hidden_size);
  model.intermediate_size =
      config.integer("intermediate_size", defaults.intermediate_size, 1, kMaxIntermediate);
  model.activation = activation_of(config);
  model.max_position_embeddings =
      config.integer("max_position_embeddings", defaults.max_position_embeddings, 1,
                     kMaxPositions) +
      traits.reserved_positions;
  const Index types = read_token_types(config, defaults, model);
  model.layer_norm_eps = number_within(config, "layer_norm_eps", defaults.layer_norm_eps, 1.0);
  model.pad_token_id =
      config.integer("pad_token_id", defaults.pad_token_id, 0, model.vocab_size - 1);
  if (traits.has_windows) {
    read_windows(config, model);
    // The class default stays even where it is no token of a small vocabulary.
    model.sep_token_id = config.integer("sep_token_id", 2, 0, kMaxVocabulary);
  } else {
    const HeadPattern everything = {kernels::kUnlimitedReach, kernels::kUnlimitedReach, 1};
    model.patterns.assign(
        static_cast<std::size_t>(model.layers),
        std::vector<HeadPattern>(static_cast<std::size_t>(model.heads), everything));
  }
  model.recipe.initial.deviation = number_within(config, "initializer_range", 0.02, 100.0);
  model.hidden_dropout =
      number_within(config, "hidden_dropout_prob", defaults.hidden_dropout, 0.99);
  model.attention_dropout =
      number_within(config, "attention_probs_dropout_prob", defaults.attention_dropout, 0.99);
  model.head_dropout = head_dropout(config, model);
  model.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  model.architecture = architecture_of(config);
  model.labels = labels_of(config);
  model.problem_type = problem_type_of(config);
  if (traits.read == nullptr) check_consistent(config, model);
  if (traits.has_projections) {
    model.linformer = read_linformer(config, model.layers, model.max_tokens());
  }
  if (traits.read != nullptr) {
    traits.read(config, model);
    check_consistent(config, model);
    check_token_types(config, types, defaults, model);
  }
  read_byte_encoder(config, model);
  require(model.recipe.rotations.empty() || model.head_size() % 2 == 0,
          "{}: {}: expected heads of an even size, whose pairs rotary positions turn, found {}",
          config.name(), config.renamed("num_attention_heads"), model.head_size());
  if (traits.has_features) model.features = read_features(config, false);
  if (family.decoder) {
    model.embedding_scale = scale_of(config, model);
    model.activation_dropout = number_within(config, "activation_dropout", 0, 0.99);
    model.decoder = parse_decoder(given, model);
  }
  read_edges(config, model);
  model.head_settings = head_settings_of(config);
  note_unused_keys(config, model);
  return model;
}

EncoderConfig read_folder_config(const std::string& folder, const std::string& adapter) {
  if (adapter.empty() && is_static_table(folder)) return static_config(folder);
  return read_config(config_file(folder, adapter));
}

EncoderConfig read_config(const std::string& path) {
  const Json object = formats::read_json(path);
  return parse_config(ConfigReader(object, path));
}

}  // namespace longformer::models
