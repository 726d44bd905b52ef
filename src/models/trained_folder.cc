#include "models/trained_folder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/tape.h"
#include "formats/safetensors.h"
#include "kernels/optimizer_steps.h"
#include "models/byte_encoder.h"
#include "models/convert/led.h"
#include "models/decoder.h"
#include "models/encoder.h"
#include "models/registry.h"
#include "models/token_tables.h"
#include "text/tokenizer_spec.h"

namespace longformer::models {
namespace {

using Json = nlohmann::ordered_json;

/// Parameters, and tensors that belong to no head and were not asked for, by plain name, each once.
/// What else the source has belongs to another head.
std::map<std::string, Tensor> all_tensors(const Weights& weights) {
  const auto parameters = weights.parameters();
  std::map<std::string, Tensor> tensors(parameters.begin(), parameters.end());
  for (const auto& [alias, name] : weights.aliases()) {
    if (is_of_encoder(alias)) tensors.emplace(alias, tensors.at(name));
  }
  for (const std::string& name : weights.names()) {
    const bool is_kept = is_of_encoder(name) || name == kLogitsBias;
    if (!is_kept || weights.is_buffer(name) || tensors.contains(name)) continue;
    tensors.emplace(name, weights.stored_fp32(name));
  }
  return tensors;
}

/// The part of a model that a tensor belongs to, by a name that peft finds: that of a module, or
/// the end of it.
std::string module_of(const TensorNames& names, const std::string& name) {
  const std::string written = names.module_name(name);
  if (!is_of_encoder(name)) return written.substr(0, written.find('.'));
  const std::string layer = written.substr(0, written.rfind('.'));
  return layer.substr(layer.rfind('.') + 1);
}

/// The adapter of a training: what was trained, under the names that peft has.
class TrainedAdapter {
 public:
  TrainedAdapter(const WrittenAdapter& written, const Weights& weights)
      : config_(*weights.trained_adapter()), names_(weights.tensor_names()) {
    std::vector<std::string> others;
    for (const auto& [name, value] : weights.parameters()) {
      const std::string layer = layer_of(written.name_of(name));
      if (name.ends_with(kLowRankA)) {
        layers_.push_back(layer);
      } else if (value.shape().size() == 2 && name.ends_with(".weight")) {
        others.push_back(layer);
      }
    }
    for (const auto& [name, value] : weights.parameters()) {
      if (wants_gradient(value)) add(name, written.name_of(name), value);
    }
    // peft would take other layers too whose names end so.
    const bool is_ambiguous = std::any_of(others.begin(), others.end(), [this](const auto& name) {
      return !is_adapted(name) && config_.targets_layer(name);
    });
    if (is_ambiguous || config_.targets.empty()) config_.targets = layers_;
  }

  const AdapterConfig& config() const { return config_; }
  const std::vector<std::pair<std::string, Tensor>>& tensors() const { return tensors_; }

 private:
  static std::string layer_of(const std::string& name) {
    if (name.ends_with(kLowRankA)) {
      return name.substr(0, name.size() - std::string_view(kLowRankA).size());
    }
    return name.substr(0, name.rfind('.'));
  }
  bool is_adapted(const std::string& layer) const {
    return std::find(layers_.begin(), layers_.end(), layer) != layers_.end();
  }

  void add(const std::string& name, const std::string& written, const Tensor& value) {
    if (name.ends_with(kLowRankA) || name.ends_with(kLowRankB)) {
      tensors_.emplace_back(fmt::format("{}{}", kPeftPrefix, written), value);
      return;
    }
    const std::string layer = layer_of(written);
    const bool is_bias = name.ends_with(".bias");
    const bool is_wrapped = is_bias && is_adapted(layer);
    tensors_.emplace_back(is_wrapped ? fmt::format("{}{}.base_layer.bias", kPeftPrefix, layer)
                                     : fmt::format("{}{}", kPeftPrefix, written),
                          value);
    if (is_bias && config_.bias != "none") return;
    const std::string module = module_of(names_, name);
    const bool is_known =
        std::any_of(config_.whole.begin(), config_.whole.end(),
                    [&](const std::string& known) { return ends_with_name(known, module); });
    if (!is_known) config_.whole.push_back(module);
  }

  AdapterConfig config_;
  TensorNames names_;
  std::vector<std::string> layers_;
  std::vector<std::pair<std::string, Tensor>> tensors_;
};

/// A tensor of a masked-LM head may be called decoder too.
bool is_of_decoder(const EncoderConfig& config, const std::string& name) {
  return config.decoder && name.starts_with("decoder.");
}

/// A model with a head has a prefix before encoder and pooler in `transformers`.
std::string prefix_of(const EncoderConfig& config, const std::string& name) {
  const bool is_inside =
      is_of_encoder(name) || name.starts_with("pooler.") || is_of_decoder(config, name);
  const bool has_head = !config.architecture.ends_with("Model");
  return is_inside && has_head ? std::string(config.family->names.prefixes[0]) : "";
}

}  // namespace

std::string written_name(const EncoderConfig& config, const std::string& name) {
  return prefix_of(config, name) + config.family->names.file_name(name);
}

bool is_kept_by_adapters(const EncoderConfig& config, const std::string& name) {
  return is_of_encoder(name) || is_of_decoder(config, name) || name == kOutputTokens;
}

Json trained_config(const Json& source, const std::string& architecture,
                    const std::vector<std::string>& labels, const std::string& problem_type) {
  Json json = source;
  for (const char* key :
       {"_name_or_path", "transformers_version", "torch_dtype", kQuantizationKey}) {
    json.erase(key);
  }
  spell_byte_ids(json);
  json["architectures"] = {architecture};
  json["dtype"] = "float32";
  if (!labels.empty()) {
    json.erase("num_labels");
    json["id2label"] = Json::object();
    json["label2id"] = Json::object();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      json["id2label"][std::to_string(i)] = labels[i];
      json["label2id"][labels[i]] = i;
    }
  }
  if (!problem_type.empty()) json["problem_type"] = problem_type;
  return json;
}

void write_adapter(const WrittenAdapter& written, const Weights& weights,
                   const std::filesystem::path& target) {
  const TrainedAdapter adapter(written, weights);
  write_json(target / kAdapterConfigFile,
             adapter_json(adapter.config(), written.base, written.architecture));
  formats::write_safetensors((target / kAdapterFile).string(), adapter.tensors());
}

void write_trained_folder(const TrainedFolder& trained, const Weights& weights,
                          const std::filesystem::path& target) {
  const EncoderConfig& config = trained.config;
  write_json(target / "config.json", trained.json);
  const TokenizerCopy copy = {.source = trained.source,
                              .target = target,
                              .max_tokens = trained.max_text_tokens.value_or(config.max_tokens()),
                              .tokenizer_class = std::string(config.traits().tokenizer_class),
                              .added = trained.added_tokens};
  if (text::has_tokenizer(trained.source)) copy_tokenizer(copy);
  if (trained.max_text_tokens) copy_sentence_transformers(copy);
  if (!trained.passage_context.empty()) set_passage_context(target, trained.passage_context);
  if (config.decoder) {
    const Json source = formats::read_json(config_file(trained.source.string(), {}));
    write_json(target / "generation_config.json",
               generation_config(trained.source.string(), source, config));
  }
  if (weights.trained_adapter() != nullptr) {
    write_adapter({.base = trained.source.string(),
                   .architecture = config.architecture,
                   .name_of =
                       [&](const std::string& name) {
                         return prefix_of(config, name) + config.family->names.module_name(name);
                       }},
                  weights, target);
    return;
  }
  const std::map<std::string, Tensor> tensors = all_tensors(weights);
  std::vector<std::pair<std::string, Tensor>> written;
  for (const auto& [name, value] : tensors) {
    const auto local =
        trained.globals_from_local ? tensors.find(local_projection(name)) : tensors.end();
    written.emplace_back(written_name(config, name),
                         local == tensors.end() ? value : local->second);
  }
  formats::write_safetensors((target / "model.safetensors").string(), written);
}

void read_trained_folder(const std::filesystem::path& folder, const Weights& weights) {
  if (weights.trained_adapter() != nullptr) {
    const auto adapter = Adapter::open(folder.string(), weights.tensor_names());
    for (const auto& [name, value] : weights.parameters()) {
      Tensor target = value;
      if (wants_gradient(value)) kernels::assign(target, adapter->tensor(name, value.shape()));
    }
    return;
  }
  const Weights stored = Weights::open(folder.string(), weights.tensor_names());
  for (const auto& [name, value] : weights.parameters()) {
    Tensor target = value;
    kernels::assign(target, stored.stored(name, value.shape()).to(DType::f32));
  }
}

}  // namespace longformer::models
