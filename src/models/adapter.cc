#include "models/adapter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "formats/torch_file.h"
#include "formats/unused_keys.h"
#include "models/static_table.h"
#include "models/tensor_names.h"
#include "models/weights.h"
#include "text/encoder_folder.h"

namespace longformer::models {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The file name of older versions of peft.
constexpr const char* kTorchFile = "adapter_model.bin";

/// Keys whose adapters compute something else.
constexpr std::array kUnsupportedKeys = {"use_dora",
                                         "use_qalora",
                                         "use_bdlora",
                                         "layer_replication",
                                         "target_parameters",
                                         "trainable_token_indices",
                                         "alora_invocation_tokens",
                                         "arrow_config",
                                         "kasa_config",
                                         "monteclora_config"};
/// Beginnings that leave the weights of the model as they are; others change them.
constexpr std::array<std::string_view, 4> kPlainBeginnings = {"gaussian", "eva", "orthogonal",
                                                              "mica"};

bool asks_for_something(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  return !value.is_null() && !value.empty();
}

void check_lora_supported(const formats::ConfigReader& json) {
  const std::string type = json.string("peft_type", "");
  require(type == "LORA", "{}: peft_type: expected LORA, found {}", json.name(),
          type.empty() ? "none" : formats::quote(type));
  for (const char* key : kUnsupportedKeys) {
    if (!json.has(key)) continue;
    require(!asks_for_something(json.at(key)),
            "{}: {}: expected an adapter without it, as it is not computed here, found {}",
            json.name(), key, formats::shown(json.at(key)));
  }
  constexpr const char* kInit = "init_lora_weights";
  if (!json.has(kInit) || !json.at(kInit).is_string()) return;
  const std::string init = json.string(kInit, "");
  require(
      std::find(kPlainBeginnings.begin(), kPlainBeginnings.end(), init) != kPlainBeginnings.end(),
      "{}: {}: expected a beginning that keeps the weights of the model, found {}", json.name(),
      kInit, formats::quote(init));
}

/// A list of names, or one name.
std::vector<std::string> names_in(const formats::ConfigReader& json, const char* key) {
  std::vector<std::string> names;
  if (!json.has(key)) return names;
  const Json& value = json.at(key);
  if (value.is_string()) return {value.get<std::string>()};
  require(value.is_array(), "{}: {}: expected a list of names, found {}", json.name(), key,
          formats::shown(value));
  for (const Json& name : value) {
    require(name.is_string(), "{}: {}: expected a list of names, found {}", json.name(), key,
            formats::shown(name));
    names.push_back(name.get<std::string>());
  }
  return names;
}

/// Patterns are regular expressions that names end with; plain names are those that occur.
std::vector<std::pair<std::string, double>> alphas_in(const formats::ConfigReader& json) {
  std::vector<std::pair<std::string, double>> alphas;
  constexpr const char* kKey = "alpha_pattern";
  if (!json.has(kKey)) return alphas;
  const formats::ConfigReader patterns(json.at(kKey), json.name() + ": " + kKey);
  for (const auto& [pattern, value] : patterns.object().items()) {
    const std::string name = pattern.starts_with('^') ? pattern.substr(1) : pattern;
    require(name.find_first_of("\\^$*+?()[]{}|") == std::string::npos &&
                formats::is_finite_number(value),
            "{}: expected names of layers with numbers, found {}: {}", patterns.name(),
            formats::quote(pattern), formats::shown(value));
    alphas.emplace_back(name, value.get<double>());
  }
  return alphas;
}

/// Who made the adapter and how it began to be trained: the tensors are what counts.
constexpr std::array<std::string_view, 23> kHarmlessKeys = {
    "auto_mapping",         "base_model_name_or_path",
    "corda_config",         "ensure_weight_tying",
    "eva_config",           "exclude_modules",
    "fan_in_fan_out",       "inference_mode",
    "layers_pattern",       "layers_to_transform",
    "loftq_config",         "lora_bias",
    "lora_ga_config",       "megatron_config",
    "megatron_core",        "peft_version",
    "qalora_group_size",    "revision",
    "runtime_config",       "task_type",
    "transformers_version", "velora_config",
    "_custom_modules"};

AdapterConfig config_in(const formats::ConfigReader& json) {
  check_lora_supported(json);
  AdapterConfig config = {.rank = json.integer("r", 8, 1, 1 << 16),
                          .alpha = json.number("lora_alpha", 8),
                          .dropout = json.number("lora_dropout", 0),
                          .is_rank_stabilized = json.boolean("use_rslora", false),
                          .targets = names_in(json, "target_modules"),
                          .bias = json.string("bias", "none"),
                          .alphas = alphas_in(json),
                          .whole = names_in(json, "modules_to_save")};
  // A string is a pattern, or stands for all layers.
  if (json.has("target_modules") && json.at("target_modules").is_string()) config.targets.clear();
  if (json.has("rank_pattern")) config.ranks = json.at("rank_pattern");
  formats::refuse_unused_keys(json, {.always = kHarmlessKeys, .ignores_empty = true});
  require(std::isfinite(config.alpha), "{}: lora_alpha: expected a number, found {}", json.name(),
          config.alpha);
  require(config.dropout >= 0 && config.dropout < 1,
          "{}: lora_dropout: expected a number from 0 to below 1, found {}", json.name(),
          config.dropout);
  return config;
}

/// Takes a part out of a name where it is there.
void erase_part(std::string& name, std::string_view part) {
  const auto place = name.find(part);
  if (place != std::string::npos) name.erase(place, part.size());
}

/// The name of a tensor in files of the model itself.
std::string without_wrappers(std::string name) {
  if (name.starts_with(kPeftPrefix)) name.erase(0, kPeftPrefix.size());
  erase_part(name, ".base_layer");
  erase_part(name, ".modules_to_save.default");
  erase_part(name, ".modules_to_save");
  return name;
}

/// Takes an ending off a name; false where it has another.
bool strip_ending(std::string& name, std::string_view ending) {
  if (!name.ends_with(ending)) return false;
  name.resize(name.size() - ending.size());
  return true;
}

/// "SEQ_CLS" and so on, which class of peft loads the adapter.
Json task_type(std::string_view architecture) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kTypes = {
      {{"ForSequenceClassification", "SEQ_CLS"},
       {"ForTokenClassification", "TOKEN_CLS"},
       {"ForQuestionAnswering", "QUESTION_ANS"},
       {"ForConditionalGeneration", "SEQ_2_SEQ_LM"},
       {"Model", "FEATURE_EXTRACTION"}}};
  for (const auto& [ending, type] : kTypes) {
    if (architecture.ends_with(ending)) return type;
  }
  return {};
}

}  // namespace

bool ends_with_name(std::string_view name, std::string_view ending) {
  if (!name.ends_with(ending)) return false;
  return name.size() == ending.size() || name[name.size() - ending.size() - 1] == '.';
}

bool AdapterConfig::targets_layer(std::string_view name) const {
  return std::any_of(targets.begin(), targets.end(), [name](const std::string& target) {
    return target == kAllLinear || ends_with_name(name, target);
  });
}

float AdapterConfig::scale(std::string_view name, Index own_rank) const {
  const auto found = std::ranges::find_if(
      alphas, [&](const auto& pattern) { return ends_with_name(name, pattern.first); });
  const double own = found == alphas.end() ? alpha : found->second;
  const auto count = static_cast<double>(own_rank);
  return static_cast<float>(own / (is_rank_stabilized ? std::sqrt(count) : count));
}

bool is_adapter_folder(const std::string& folder) {
  const fs::path path(folder);
  std::error_code ignored;
  return fs::exists(path / kAdapterConfigFile, ignored) &&
         (fs::exists(path / kAdapterFile, ignored) || fs::exists(path / kTorchFile, ignored));
}

std::shared_ptr<const Adapter> Adapter::open(const std::string& folder, const TensorNames& names) {
  const fs::path config = fs::path(folder) / kAdapterConfigFile;
  require(fs::is_directory(folder), "{}: expected the folder of an adapter, found {}", folder,
          fs::exists(folder) ? "a file" : "none");
  require(fs::exists(config), "{}: expected the folder of an adapter, with {}, found none", folder,
          kAdapterConfigFile);
  const Json object = formats::read_json(config.string());
  const formats::ConfigReader json(object, config.string());
  auto adapter = std::make_shared<Adapter>();
  adapter->config_ = config_in(json);
  const bool is_torch = !fs::exists(fs::path(folder) / kAdapterFile);
  adapter->path_ = (fs::path(folder) / (is_torch ? kTorchFile : kAdapterFile)).string();
  require(fs::exists(adapter->path_), "{}: expected {} or {} beside it, found neither",
          config.string(), kAdapterFile, kTorchFile);
  adapter->read_tensors(names);
  adapter->fingerprint_ = fnv1a(object.dump(), adapter->fingerprint_);
  return adapter;
}

void Adapter::read_tensors(const TensorNames& names) {
  const auto file = formats::MappedFile::open(path_);
  const formats::StoredTensors tensors =
      path_.ends_with(".bin") ? formats::read_torch_header(file, path_).tensors
                              : formats::read_safetensors_header(file, path_).tensors;
  fingerprint_ = fnv1a({reinterpret_cast<const char*>(file->data()), file->size()});
  const auto load = [this](const std::string& stored, const formats::StoredTensor& tensor) {
    require(is_floating(tensor.dtype()), "{}: tensor {}: expected numbers, found {}", path_,
            formats::quote(stored), name_of(tensor.dtype()));
    return tensor.load().copied();
  };
  // A family may have modules with other names than files have, and so may an adapter.
  std::map<std::string, std::string> written;
  for (const auto& [stored, tensor] : tensors) {
    const std::string own = without_wrappers(stored);
    std::string name = names.model_name_of_module(own);
    require(name.find(".lora_magnitude_vector") == std::string::npos &&
                name.find(".lora_embedding_") == std::string::npos,
            "{}: tensor {}: expected low-rank parts of linear layers, found another part", path_,
            formats::quote(stored));
    if (strip_ending(name, kLowRankA)) {
      layers_[name].a = load(stored, tensor);
      written[name] = own.substr(0, own.size() - std::string_view(kLowRankA).size());
    } else if (strip_ending(name, kLowRankB)) {
      layers_[name].b = load(stored, tensor);
    } else if (strip_ending(name, ".lora_B.bias")) {
      layers_[name].bias = load(stored, tensor);
    } else {
      whole_.emplace(name, tensor);
    }
  }
  require(!layers_.empty(), "{}: expected tensors of low rank, found none", path_);
  bool is_renamed = false;
  for (auto& [name, layer] : layers_) {
    check_layer(name, layer);
    layer.scale = config_.scale(written.at(name), layer.a.rows());
    is_renamed = is_renamed || !ends_with_name(written.at(name), names.module_layer(name));
  }
  unpack(names);
  if (is_renamed && !names.module_renames.empty()) rename_layers(names);
}

void Adapter::unpack(const TensorNames& names) {
  std::map<std::string, Layer> unpacked;
  for (const auto& [name, layer] : layers_) {
    const std::vector<std::string> modules = names.modules_of(name);
    const Index all = layer.b.rows(), rows = all / std::ssize(modules);
    require(rows * std::ssize(modules) == all,
            "{}: layer {}: expected as many rows for each of {}, found {}", path_,
            formats::quote(names.file_layer(name)), fmt::join(modules, ", "), all);
    for (std::size_t i = 0; i < modules.size(); ++i) {
      const Index first = static_cast<Index>(i) * rows;
      Layer& module = unpacked[modules[i]];
      module = {.a = layer.a, .b = layer.b.slice_rows(first, rows), .scale = layer.scale};
      if (!layer.bias.empty()) module.bias = layer.bias.slice_rows(first, rows);
    }
  }
  layers_ = std::move(unpacked);
}

void Adapter::rename_layers(const TensorNames& names) {
  config_.targets.clear();
  if (config_.alphas.empty() && config_.ranks.empty()) return;
  config_.alphas.clear();
  config_.ranks = nlohmann::ordered_json::object();
  for (const auto& [name, layer] : layers_) {
    const Index rank = layer.a.rows();
    const auto count = static_cast<double>(rank);
    const double alpha = layer.scale * (config_.is_rank_stabilized ? std::sqrt(count) : count);
    config_.alphas.emplace_back(names.module_layer(name), alpha);
    config_.ranks[names.module_layer(name)] = rank;
  }
}

Tensor Adapter::tensor(const std::string& name, const Shape& shape) const {
  std::string layer = name;
  const bool is_a = strip_ending(layer, kLowRankA);
  const bool is_low_rank = is_a || strip_ending(layer, kLowRankB);
  Tensor found;
  if (is_low_rank && layers_.contains(layer)) {
    found = is_a ? layers_.at(layer).a : layers_.at(layer).b;
  } else if (const auto whole = whole_.find(name); whole != whole_.end()) {
    found = whole->second.load().to(DType::f32);
  }
  require(!found.empty() && found.shape() == shape, "{}: tensor {}: expected {}, found {}", path_,
          formats::quote(name), to_string(shape),
          found.empty() ? "none" : to_string(found.shape()));
  return found;
}

void Adapter::check_layer(const std::string& name, const Layer& layer) const {
  require(!layer.a.empty() && !layer.b.empty(),
          "{}: layer {}: expected lora_A.weight and lora_B.weight, found one of them", path_,
          formats::quote(name));
  const bool agree = layer.a.shape().size() == 2 && layer.b.shape().size() == 2 &&
                     layer.a.rows() >= 1 && layer.b.columns() == layer.a.rows() &&
                     (layer.bias.empty() || layer.bias.shape() == Shape{layer.b.rows()});
  require(agree, "{}: layer {}: expected matrices [r, in] and [out, r], found {} and {}", path_,
          formats::quote(name), to_string(layer.a.shape()), to_string(layer.b.shape()));
  require(!config_.ranks.empty() || layer.a.rows() == config_.rank,
          "{}: layer {}: expected the rank {} of {}, found {}", path_, formats::quote(name),
          config_.rank, kAdapterConfigFile, layer.a.rows());
}

Json adapter_json(const AdapterConfig& config, const std::string& base,
                  std::string_view architecture) {
  Json json = {{"base_model_name_or_path", base},
               {"bias", config.bias},
               {"fan_in_fan_out", false},
               {"inference_mode", true},
               {"init_lora_weights", true},
               {"lora_alpha", config.alpha},
               {"lora_bias", false},
               {"lora_dropout", config.dropout},
               {"modules_to_save", Json()},
               {"peft_type", "LORA"},
               {"r", config.rank},
               {"rank_pattern", config.ranks},
               {"alpha_pattern", Json::object()},
               {"target_modules", config.targets},
               {"task_type", task_type(architecture)},
               {"use_dora", false},
               {"use_rslora", config.is_rank_stabilized}};
  // peft reads whole numbers and others alike, and writes the former.
  if (config.alpha == std::floor(config.alpha)) {
    json["lora_alpha"] = static_cast<std::int64_t>(config.alpha);
  }
  if (!config.whole.empty()) json["modules_to_save"] = config.whole;
  for (const auto& [name, alpha] : config.alphas) json["alpha_pattern"][name] = alpha;
  return json;
}

std::string config_file(const std::string& folder, const std::string& adapter) {
  const std::string usual = text::encoder_folder(folder) + "/config.json";
  require(
      fs::exists(usual) || !is_static_table(folder),
      "{}: expected a model with layers, found a table of tokens (StaticEmbedding), which makes "
      "vectors (embed, search, serve) and is neither trained nor converted here",
      folder);
  if (adapter.empty()) return usual;
  const std::string own = adapter + "/config.json";
  if (!fs::exists(own)) return usual;
  const auto type_in = [](const std::string& path) {
    const Json json = formats::read_json(path);
    return formats::ConfigReader(json, path).string("model_type", "");
  };
  const std::string expected = type_in(usual), found = type_in(own);
  require(found == expected, "{}: model_type: expected {} as in {}, found {}", own,
          formats::quote(expected), usual, formats::quote(found));
  return own;
}

}  // namespace longformer::models
