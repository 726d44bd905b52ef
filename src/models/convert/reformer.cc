#include "models/convert/reformer.h"

#include <map>
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
#include "ops/embedding.h"
#include "text/tokenizer_spec.h"

namespace longformer::models {
namespace {

using Json = nlohmann::ordered_json;

/// google/reformer-enwik8 counts bytes from two on.
constexpr Index kBytes = 256, kByteOffset = 2;

constexpr std::array<std::string_view, 1> kReformerPrefix = {"reformer."};

const TensorNames& reformer_names() {
  static const TensorNames kNames = {.prefixes = kReformerPrefix};
  return kNames;
}

/// Symbols that the numbers of the model stand for: as config.json says where it has the keys of
/// our folders, else tokens, else bytes.
struct Symbols {
  std::string vocabulary;
  /// Rows of the tables before the first symbol.
  Index offset = 0;
  Index count = 0;
};

Symbols symbols_of(const formats::ConfigReader& config, const std::string& folder) {
  const Index count = config.integer("vocab_size", 320, 1, kMaxVocabulary);
  if (config.has("symbols")) return {"bytes", 0, count};
  if (config.has("vocabulary")) return {config.string("vocabulary", ""), 0, count};
  if (text::has_tokenizer(folder)) return {"tokenizer", 0, count};
  require(count == kBytes || count == kBytes + kByteOffset,
          "{}: expected the files of a tokenizer, or a vocab_size of {} or {} for bytes, found "
          "neither, and a vocab_size of {}",
          folder, kBytes, kBytes + kByteOffset, count);
  return {"bytes", count - kBytes, kBytes};
}

/// config.json of the result; keys of one name keep it.
Json reformer_config(const formats::ConfigReader& source, const Symbols& symbols) {
  require(source.boolean("is_decoder", false),
          "{}: is_decoder: expected true, as a language model looks back alone, found false",
          source.name());
  Json json = {{"model_type", kLanguageModelType}, {"attention", "reformer"}};
  json["vocabulary"] = symbols.vocabulary;
  json["vocab_size"] = symbols.count;
  if (source.has("symbols")) json["symbols"] = Json(source.at("symbols"));
  json["hidden_size"] = source.integer("hidden_size", 256, 2, kMaxHidden);
  if (!source.has("attn_layers")) {
    json["attn_layers"] = {"local", "lsh", "local", "lsh", "local", "lsh"};
  }
  for (const char* key :
       {"attn_layers", "local_attn_chunk_length", "local_num_chunks_before",
        "local_num_chunks_after", "lsh_attn_chunk_length", "lsh_num_chunks_before",
        "lsh_num_chunks_after", "num_hashes", "num_buckets", "hash_seed", "hidden_act"}) {
    if (source.has(key)) json[key] = Json(source.at(key));
  }
  const Json& layers = json["attn_layers"];
  json["num_hidden_layers"] = layers.is_array() ? layers.size() : 1;
  json["num_attention_heads"] = source.integer("num_attention_heads", 12, 1, kMaxHidden);
  json["head_dim"] = source.integer("attention_head_size", 64, 1, kMaxHidden);
  json["intermediate_size"] = source.integer("feed_forward_size", 512, 1, kMaxIntermediate);
  if (!json.contains("hidden_act")) json["hidden_act"] = "relu";
  json["max_position_embeddings"] =
      source.integer("max_position_embeddings", 4096, 1, kMaxPositions);
  const bool is_axial = source.boolean("axial_pos_embds", true);
  json["positions"] = is_axial ? "axial" : "learned";
  if (is_axial) {
    const auto list = [&](const char* key, Json usual) {
      json[key] = source.has(key) ? Json(source.at(key)) : std::move(usual);
    };
    list("axial_pos_shape", {64, 64});
    list("axial_pos_embds_dim", {64, 192});
  }
  json["dropout"] = source.number("hidden_dropout_prob", 0.05);
  json["attention_dropout"] = source.number("local_attention_probs_dropout_prob", 0.05);
  json["lsh_attention_dropout"] = source.number("lsh_attention_probs_dropout_prob", 0);
  json["layer_norm_eps"] = source.number("layer_norm_eps", 1e-12);
  json["initializer_range"] = source.number("initializer_range", 0.02);
  return json;
}

using Tensors = std::map<std::string, Tensor>;

/// Names of the parts of a layer that only take another name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kParts = {{
    {"attention_norm.weight", "attention.layer_norm.weight"},
    {"attention_norm.bias", "attention.layer_norm.bias"},
    {"attention_output.weight", "attention.output.dense.weight"},
    {"feed_forward_norm.weight", "feed_forward.layer_norm.weight"},
    {"feed_forward_norm.bias", "feed_forward.layer_norm.bias"},
    {"up.weight", "feed_forward.dense.dense.weight"},
    {"up.bias", "feed_forward.dense.dense.bias"},
    {"down.weight", "feed_forward.output.dense.weight"},
    {"down.bias", "feed_forward.output.dense.bias"},
}};

void add_layer(const Weights& weights, const LanguageModelConfig& config, Index layer,
               Tensors& tensors) {
  const std::string from = fmt::format("encoder.layers.{}.", layer);
  for (const auto& [own, theirs] : kParts) {
    tensors[name_in(layer, std::string(own))] = weights.stored_fp32(from + std::string(theirs));
  }
  std::vector<std::string_view> parts = {"query", "key", "value"};
  if (config.reformer.layers[at(layer)] == ChunkLayer::lsh) parts = {"query_key", "value"};
  std::vector<Tensor> projections;
  for (const std::string_view part : parts) {
    projections.push_back(
        weights.stored_fp32(fmt::format("{}attention.self_attention.{}.weight", from, part)));
  }
  MemoryPool memory;
  tensors[name_in(layer, "query_key_value.weight")] =
      ops::joined_rows({.memory = memory}, projections).copied();
}

Tensors reformer_tensors(const Weights& weights, const LanguageModelConfig& config,
                         const Symbols& symbols) {
  Tensors tensors;
  const auto symbol_rows = [&](const std::string& name) {
    const Tensor all = weights.stored_fp32(name);
    require(all.rows() == symbols.offset + symbols.count,
            "{}: {}: expected {} rows, as many as vocab_size says, found {}", weights.path(), name,
            symbols.offset + symbols.count, all.rows());
    return all.slice_rows(symbols.offset, symbols.count);
  };
  tensors["embedding.weight"] = symbol_rows("embeddings.word_embeddings.weight");
  tensors["output.weight"] = symbol_rows("lm_head.decoder.weight");
  // Versions of transformers differ in which of the two they write; where both are there, the
  // decoder's is in the logits.
  const bool has_own = weights.has("lm_head.decoder.bias");
  const std::string bias = has_own ? "lm_head.decoder.bias" : "lm_head.bias";
  tensors["output.bias"] =
      weights.has(bias) ? symbol_rows(bias) : Tensor::zeros({symbols.count}, DType::f32);
  const std::string positions = "embeddings.position_embeddings.";
  if (config.positions == Positions::axial) {
    const auto& shape = config.reformer.axial_shape;
    const auto& sizes = config.reformer.axial_sizes;
    const Tensor rows = weights.stored_fp32(positions + "weights.0");
    const Tensor columns = weights.stored_fp32(positions + "weights.1");
    require(rows.size() == shape[0] * sizes[0] && columns.size() == shape[1] * sizes[1],
            "{}: {}weights: expected tables [{}, {}] and [{}, {}], found {} and {}", weights.path(),
            positions, shape[0], sizes[0], shape[1], sizes[1], to_string(rows.shape()),
            to_string(columns.shape()));
    tensors["axial_rows.weight"] = rows.reshaped({shape[0], sizes[0]});
    tensors["axial_columns.weight"] = columns.reshaped({shape[1], sizes[1]});
  } else {
    tensors["position_embedding.weight"] = weights.stored_fp32(positions + "embedding.weight");
  }
  for (Index layer = 0; layer < config.layers; ++layer) {
    add_layer(weights, config, layer, tensors);
  }
  tensors["final_norm.weight"] = weights.stored_fp32("encoder.layer_norm.weight");
  tensors["final_norm.bias"] = weights.stored_fp32("encoder.layer_norm.bias");
  return tensors;
}

/// Tensors that the model asks for, in its order, each of the shape that the configuration says.
std::vector<std::pair<std::string, Tensor>> checked_tensors(const LanguageModelConfig& config,
                                                            const Tensors& tensors,
                                                            const std::string& source) {
  const Weights recording = Weights::recording();
  const LanguageModel model(config, recording, DType::f32);
  std::vector<std::pair<std::string, Tensor>> checked;
  for (const WeightRecord& record : recording.recorded()) {
    const Tensor& tensor = tensors.at(record.name);
    require(tensor.shape() == record.shape, "{}: {}: expected {}, found {}", source, record.name,
            to_string(record.shape), to_string(tensor.shape()));
    checked.emplace_back(record.name, tensor);
  }
  return checked;
}

void tell(const formats::ConfigReader& source, const Symbols& symbols,
          const ConvertOptions& options) {
  if (!options.note) return;
  if (!source.has("hash_seed")) {
    options.note(fmt::format(
        "{}: hash_seed: none, so transformers draws other hashes for every pass; the result has 0",
        source.name()));
  }
  if (symbols.offset > 0) {
    options.note(
        fmt::format("{}: vocab_size: the first {} numbers stand for no byte, and are left out",
                    source.name(), symbols.offset));
  }
}

}  // namespace

ConvertedFrom convert_reformer(const std::string& source_folder,
                               const std::filesystem::path& target, const ConvertOptions& options) {
  const std::string path = source_folder + "/config.json";
  const Json source_json = formats::read_json(path);
  const formats::ConfigReader source(source_json, path);
  const Symbols symbols = symbols_of(source, source_folder);
  const Json json = reformer_config(source, symbols);
  const LanguageModelConfig config = parse_language_model(formats::ConfigReader(json, path));
  const Weights weights = Weights::open(source_folder, reformer_names());
  require(weights.has("lm_head.decoder.weight"),
          "{}: expected the head of a language model, lm_head.decoder.weight, found none",
          weights.path());
  const auto tensors =
      checked_tensors(config, reformer_tensors(weights, config, symbols), weights.path());
  weights.tell_nonfinite(options.note);
  tell(source, symbols, options);
  write_json(target / "config.json", to_json(config));
  if (config.reads_tokens) {
    copy_tokenizer_files(source_folder, target);
    keep_tokenizer_class(source_folder, target);
  }
  if (options.format == "bin") {
    formats::write_torch_file((target / "pytorch_model.bin").string(), tensors);
  } else {
    formats::write_safetensors((target / "model.safetensors").string(), tensors);
  }
  return {.model_type = "reformer", .max_tokens = config.max_positions};
}

}  // namespace longformer::models
