#include "models/trained_folder.h"

#include <map>
#include <utility>

#include "core/error.h"
#include "core/tape.h"
#include "formats/safetensors.h"
#include "kernels/optimizer_steps.h"
#include "models/convert/led.h"
#include "models/decoder.h"
#include "models/encoder.h"
#include "models/registry.h"

namespace longformer::models {
namespace {

using Json = nlohmann::ordered_json;

/// With a head, `transformers` has the encoder and the pooler behind a prefix.
std::string written_name(const EncoderConfig& config, const std::string& name) {
  const TensorNames& names = config.family->names;
  const bool prefixed =
      is_of_encoder(name) || name.starts_with("pooler.") || name.starts_with("decoder.");
  return prefixed ? std::string(names.prefixes[0]) + names.file_name(name) : name;
}

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

}  // namespace

Json trained_config(const Json& source, const std::string& architecture,
                    const std::vector<std::string>& labels, const std::string& problem_type) {
  Json json = source;
  for (const char* key : {"_name_or_path", "transformers_version", "torch_dtype"}) json.erase(key);
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

void write_trained_folder(const TrainedFolder& trained, const Weights& weights,
                          const std::filesystem::path& target) {
  const EncoderConfig& config = trained.config;
  write_json(target / "config.json", trained.json);
  const TokenizerCopy copy = {.source = trained.source,
                              .target = target,
                              .max_tokens = trained.max_text_tokens.value_or(config.max_tokens()),
                              .tokenizer_class = std::string(config.traits().tokenizer_class),
                              .added = trained.added_tokens};
  if (has_tokenizer(trained.source)) copy_tokenizer(copy);
  if (trained.max_text_tokens) copy_sentence_transformers(copy);
  if (!trained.passage_context.empty()) set_passage_context(target, trained.passage_context);
  if (config.decoder) {
    const Json source = formats::read_json((trained.source / "config.json").string());
    write_json(target / "generation_config.json",
               generation_config(trained.source.string(), source));
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
  const Weights stored = Weights::open(folder.string(), weights.tensor_names());
  for (const auto& [name, value] : weights.parameters()) {
    Tensor target = value;
    kernels::assign(target, stored.stored(name, value.shape()).to(DType::f32));
  }
}

}  // namespace longformer::models
