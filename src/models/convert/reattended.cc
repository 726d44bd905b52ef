#include "models/convert/reattended.h"

#include <array>
#include <utility>

#include "core/error.h"
#include "kernels/rows.h"
#include "models/attention/attention.h"
#include "models/convert/targets.h"
#include "models/edges.h"
#include "models/encoder.h"
#include "models/registry.h"

namespace longformer::models {
namespace {

using Json = nlohmann::ordered_json;

/// The base_model_type of the result: BERT and RoBERTa differ in their positions and heads, and a
/// Longformer is a RoBERTa in both.
std::string base_of(const std::string& folder, const EncoderConfig& config) {
  const EncoderTraits& traits = config.traits();
  const bool has_tensors_of_bert = config.family->names.renames.empty() && !config.decoder &&
                                   !traits.projects_embeddings && !config.linformer &&
                                   !config.features && !config.recipe.shifted_blocks &&
                                   !config.recipe.sparse;
  require(has_tensors_of_bert,
          "{}: model_type: expected bert, roberta, xlm-roberta, camembert or longformer, found {}",
          folder, config.model_type());
  return traits.positions_follow_padding ? "roberta" : "bert";
}

/// The configuration to be written. What cannot be in it are options, so errors begin with their
/// names, not with that of a file.
EncoderConfig parsed(const Json& json, const std::string& target) {
  try {
    return parse_config(formats::ConfigReader(json, target));
  } catch (const Error& error) {
    if (error.key().empty()) throw;
    ErrorParts parts = error.parts();
    parts.subject = parts.option = parts.key;
    throw Error(std::move(parts));
  }
}

/// New tensors of the target's attention, by the names of the model.
std::vector<std::pair<std::string, Tensor>> drawn_tensors(const EncoderConfig& target,
                                                          std::uint64_t seed) {
  const Weights drawn = Weights::trained(Weights::drawn(seed), {.seed = seed});
  const LayerSource source = layer_source(target, drawn, DType::f32);
  // Making an attention draws its weights.
  for (Index layer = 0; layer < target.layers; ++layer) {
    target.traits().attention(target, layer, source);
  }
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const auto& [name, value] : drawn.parameters()) {
    const bool is_new = name.ends_with("_projection.weight") || name.ends_with(".features");
    if (is_new) tensors.emplace_back(name, value);
  }
  return tensors;
}

/// BigBird has the positions of BERT, and its heads for tokens, choices and masked words.
void check_big_bird(const std::string& folder, const EncoderConfig& config,
                    const std::string& base) {
  require(base == "bert", "{}: model_type: expected bert for a big_bird, found {}", folder,
          config.model_type());
  const std::string& head = config.architecture;
  for (const char* other : {"ForSequenceClassification", "ForQuestionAnswering"}) {
    require(!head.ends_with(other),
            "{}: architectures: expected a model without a head whose layers differ in BigBird, "
            "found {} (convert the model that it was fine-tuned from, then fine-tune the result)",
            folder, head);
  }
}

bool is_of_head(const std::string& name) {
  return !is_of_encoder(name) && !name.starts_with("pooler.");
}

}  // namespace

Json reattended_config(const std::string& folder, const Json& source, const EncoderConfig& config,
                       const ConvertOptions& options, Index max_tokens) {
  const std::string base = base_of(folder, config);
  Json json = source;
  for (const char* key : {"_name_or_path", "transformers_version", "attention_window",
                          "attention_dilation", "auto_map", "position_embedding_type", kEdgesKey}) {
    json.erase(key);
  }
  const bool is_big_bird = options.target == "big_bird";
  if (is_big_bird) check_big_bird(folder, config, base);
  json["model_type"] = options.target;
  if (!is_big_bird) json["base_model_type"] = base;
  const Family& family = family_of(options.target, folder, is_big_bird ? "" : base);
  const std::string own(config.family->class_prefix);
  const std::string ending = config.architecture.starts_with(own)
                                 ? config.architecture.substr(own.size())
                                 : std::string("Model");
  json["architectures"] = {std::string(family.class_prefix) + ending};
  json["max_position_embeddings"] = max_tokens + config.first_position();
  // Class defaults of the source may be others.
  json["vocab_size"] = config.vocab_size;
  json["type_vocab_size"] = config.type_vocab_size;
  json["layer_norm_eps"] = config.layer_norm_eps;
  if (is_big_bird) json["hidden_act"] = name_of(config.activation);
  json["pad_token_id"] = config.pad_token_id;
  const ConversionTarget& made = conversion_target(options.target);
  made.set(options, json);
  made.write(parsed(json, options.target), json);
  return json;
}

ConvertedWeights reattended_weights(const EncoderConfig& config, const Weights& source,
                                    const EncoderConfig& target, const WeightPlan& plan,
                                    std::uint64_t seed) {
  ConvertedWeights result = {.tensors = {}, .architecture = target.architecture};
  std::vector<std::pair<std::string, Tensor>> tensors;
  bool has_head = false;
  for (const std::string& name : source.names()) {
    if (source.is_buffer(name) || !local_projection(name).empty()) continue;
    if (name.ends_with(kEdgeTable)) continue;
    has_head = has_head || is_of_head(name);
    Tensor tensor = source.stored(name, source.shape(name));
    if (name == kPositionEmbeddings) {
      const Index reserved = config.first_position();
      tensor = kernels::tile_rows(
          tensor,
          {.source_reserved = reserved, .target_reserved = reserved, .count = plan.max_positions});
    }
    tensors.emplace_back(name, tensor);
  }
  for (auto& drawn : drawn_tensors(target, seed)) tensors.push_back(std::move(drawn));
  const std::string prefix(has_head ? target.family->names.prefixes[0] : "");
  for (auto& [name, tensor] : tensors) {
    const std::string in_file = target.family->names.file_name(name);
    result.tensors.emplace_back(is_of_head(name) ? in_file : prefix + in_file,
                                plan.dtype ? tensor.to(*plan.dtype) : tensor);
  }
  return result;
}

}  // namespace longformer::models
