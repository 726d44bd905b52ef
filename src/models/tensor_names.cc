#include "models/tensor_names.h"

#include <fmt/format.h>

#include <string_view>

namespace longformer::models {
namespace {

class List {
 public:
  void dense(const std::string& name, Index outputs, Index inputs) {
    tensors.push_back({name + ".weight", {outputs, inputs}});
    tensors.push_back({name + ".bias", {outputs}});
  }
  void norm(const std::string& name, Index width) {
    tensors.push_back({name + ".weight", {width}});
    tensors.push_back({name + ".bias", {width}});
  }

  std::vector<NamedShape> tensors;
};

void add_layer(List& list, const EncoderConfig& config, const std::string& name) {
  const Index width = config.hidden_size;
  for (const char* suffix : {"", "_global"}) {
    if (*suffix != '\0' && config.model_type != ModelType::longformer) continue;
    for (const char* projection : {"query", "key", "value"}) {
      list.dense(fmt::format("{}attention.self.{}{}", name, projection, suffix), width, width);
    }
  }
  list.dense(name + "attention.output.dense", width, width);
  list.norm(name + "attention.output.LayerNorm", width);
  list.dense(name + "intermediate.dense", config.intermediate_size, width);
  list.dense(name + "output.dense", width, config.intermediate_size);
  list.norm(name + "output.LayerNorm", width);
}

}  // namespace

bool is_of_encoder(const std::string& name) {
  return name.starts_with("embeddings.") || name.starts_with("encoder.");
}

std::string local_projection(const std::string& name) {
  const std::string_view ending = "_global.";
  const auto at = name.find(ending);
  if (at == std::string::npos) return "";
  return name.substr(0, at) + "." + name.substr(at + ending.size());
}

std::vector<NamedShape> encoder_tensors(const EncoderConfig& config) {
  const Index width = config.hidden_size;
  List list;
  list.tensors = {{kWordEmbeddings, {config.vocab_size, width}},
                  {kPositionEmbeddings, {config.max_position_embeddings, width}},
                  {"embeddings.token_type_embeddings.weight", {config.type_vocab_size, width}}};
  list.norm("embeddings.LayerNorm", width);
  for (Index i = 0; i < config.layers; ++i) {
    add_layer(list, config, fmt::format("encoder.layer.{}.", i));
  }
  return std::move(list.tensors);
}

std::vector<NamedShape> pooler_tensors(const EncoderConfig& config) {
  List list;
  list.dense("pooler.dense", config.hidden_size, config.hidden_size);
  return std::move(list.tensors);
}

MaskedLmNames masked_lm_names(ModelType type) {
  if (type == ModelType::bert) {
    return {.dense = "cls.predictions.transform.dense",
            .norm = "cls.predictions.transform.LayerNorm",
            .decoder = "cls.predictions.decoder",
            .bias = {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
  }
  return {.dense = "lm_head.dense",
          .norm = "lm_head.layer_norm",
          .decoder = "lm_head.decoder",
          .bias = {"lm_head.decoder.bias", "lm_head.bias"}};
}

std::vector<NamedShape> masked_lm_tensors(const EncoderConfig& config) {
  const MaskedLmNames names = masked_lm_names(config.model_type);
  List list;
  list.dense(names.dense, config.hidden_size, config.hidden_size);
  list.norm(names.norm, config.hidden_size);
  list.tensors.push_back({names.bias[1], {config.vocab_size}});
  return std::move(list.tensors);
}

}  // namespace longformer::models
