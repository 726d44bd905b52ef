#include "models/convert/transformer_xl.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "formats/safetensors.h"
#include "formats/torch_file.h"
#include "models/config_limits.h"
#include "models/convert/files.h"
#include "models/language_model.h"
#include "models/weights.h"

namespace longformer::models {
namespace {

using Json = nlohmann::ordered_json;
using Rename = TensorNames::Rename;

constexpr std::array<std::string_view, 2> kPrefixes = {"transformer.", "module."};
/// u and v are of all layers, or within each.
constexpr std::array<Rename, 13> kRenames = {
    Rename{"embedding.weight", "word_emb.emb_layers.0.weight"},
    Rename{"output.", "crit.out_layers.0."},
    Rename{"relative_content", "dec_attn.r_w_bias", "layers."},
    Rename{"relative_position", "dec_attn.r_r_bias", "layers."},
    Rename{"relative_content", "r_w_bias"},
    Rename{"relative_position", "r_r_bias"},
    Rename{"query_key_value", "dec_attn.qkv_net"},
    Rename{"relative_key", "dec_attn.r_net"},
    Rename{"attention_output", "dec_attn.o_net"},
    Rename{"attention_norm", "dec_attn.layer_norm"},
    Rename{"feed_forward_norm", "pos_ff.layer_norm"},
    Rename{"up.", "pos_ff.CoreNet.0."},
    Rename{"down.", "pos_ff.CoreNet.3."},
};

const TensorNames& names() {
  static const TensorNames kNames = {.prefixes = kPrefixes, .renames = kRenames};
  return kNames;
}

Index layers_of(const Weights& weights) {
  Index layers = 0;
  while (weights.has(name_in(layers, "query_key_value.weight"))) ++layers;
  require(layers > 0, "{}: expected tensors of Transformer-XL such as {}, found none",
          weights.path(), names().file_name(name_in(0, "query_key_value.weight")));
  return layers;
}

/// Refuses what a language model of this program does not compute.
void check_source(const formats::ConfigReader& config, const Weights& weights) {
  const Index type = config.integer("attn_type", 0, 0, 3);
  require(type == 0, "{}: attn_type: expected 0, the attention of Transformer-XL, found {}",
          config.name(), type);
  const bool has_cutoffs = config.has("cutoffs") && !config.at("cutoffs").empty();
  require(!has_cutoffs && !weights.has("word_emb.emb_layers.1.weight"),
          "{}: cutoffs: expected one softmax over all symbols, found an adaptive one",
          config.name());
  for (const std::string& name : weights.names()) {
    require(!name.starts_with("word_emb.emb_projs"),
            "{}: expected embeddings as wide as the layers, found the projection {}",
            weights.path(), name);
  }
  // Another model has no symbols either, and needs none.
  layers_of(weights);
  require(config.has("symbols") || config.has("vocabulary"),
          "{}: symbols: expected the list of bytes that the numbers of the model stand for, which "
          "its own vocabulary orders by how often they occur, found none",
          config.name());
}

/// config.json of the result: sizes as the tensors have them, all else as the source says.
Json config_of(const formats::ConfigReader& source, const Weights& weights) {
  const Index layers = layers_of(weights);
  const bool shares = weights.has("relative_content");
  const Shape& biases = weights.shape(shares ? "relative_content" : name_in(0, "relative_content"));
  const Shape& embedding = weights.shape("embedding.weight");
  require(biases.size() == 2 && embedding.size() == 2,
          "{}: expected matrices of symbols and of heads, found {} and {}", weights.path(),
          to_string(embedding), to_string(biases));
  Json json = {{"model_type", kLanguageModelType}, {"attention", "recurrent"}};
  for (const char* key : {"vocabulary", "symbols"}) {
    if (source.has(key)) json[key] = Json(source.at(key));
  }
  json["vocab_size"] = embedding[0];
  json["hidden_size"] = embedding[1];
  json["num_hidden_layers"] = layers;
  json["num_attention_heads"] = biases[0];
  json["head_dim"] = biases[1];
  json["intermediate_size"] = weights.shape(name_in(0, "up.weight"))[0];
  json["hidden_act"] = "relu";
  json["norm_position"] = source.boolean("pre_lnorm", false) ? "pre" : "post";
  json["final_layer_norm"] = false;
  json["share_relative_biases"] = shares;
  const Index segment = source.integer("tgt_len", 512, 1, kMaxPositions);
  json["segment_length"] = segment;
  json["memory_length"] = source.integer("mem_len", segment, 0, kMaxPositions);
  json["clamp_length"] = std::max<Index>(0, source.integer("clamp_len", 0, -1, kMaxPositions));
  json["same_length"] = source.boolean("same_length", false);
  json["dropout"] = source.number("dropout", 0.1);
  json["attention_dropout"] = source.number("dropatt", 0);
  json["layer_norm_eps"] = source.number("layer_norm_epsilon", 1e-5);
  const bool is_tied =
      !weights.has("output.weight") ||
      weights.stored_fp32("output.weight").equals(weights.stored_fp32("embedding.weight"));
  json["tie_word_embeddings"] = is_tied;
  return json;
}

}  // namespace

ConvertedFrom convert_transformer_xl(const std::string& source_folder,
                                     const std::filesystem::path& target,
                                     const ConvertOptions& options) {
  const std::string path = source_folder + "/config.json";
  const Json source_json = formats::read_json(path);
  const formats::ConfigReader source(source_json, path);
  const Weights weights = Weights::open(source_folder, names());
  check_source(source, weights);
  const Json json = config_of(source, weights);
  const LanguageModelConfig config = parse_language_model(formats::ConfigReader(json, path));
  const Weights recording = Weights::recording();
  const LanguageModel model(config, recording, DType::f32);
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const WeightRecord& record : recording.recorded()) {
    tensors.emplace_back(record.name, weights.get_fp32(record.name, record.shape, {}));
  }
  weights.tell_nonfinite(options.note);
  write_json(target / "config.json", to_json(config));
  if (config.reads_tokens) copy_tokenizer_files(source_folder, target);
  if (options.format == "bin") {
    formats::write_torch_file((target / "pytorch_model.bin").string(), tensors);
  } else {
    formats::write_safetensors((target / "model.safetensors").string(), tensors);
  }
  return {.model_type = "transformer-xl", .max_tokens = 0};
}

}  // namespace longformer::models
