#include "models/convert/led.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/error.h"
#include "formats/json.h"
#include "kernels/rows.h"
#include "longformer/options.h"
#include "models/convert/original_config.h"
#include "models/decoder.h"
#include "models/encoder.h"
#include "models/registry.h"
#include "models/token_tables.h"

namespace longformer::models {
namespace {

using formats::quote;
using Json = nlohmann::ordered_json;

constexpr const char* kDecoderPositions = "decoder.embed_positions.weight";

/// The tensors of the target in the order of their names.
class LedConverter {
 public:
  LedConverter(const EncoderConfig& config, const Weights& source, const WeightPlan& plan)
      : config_(config),
        source_(source),
        plan_(plan),
        names_(family_of("led", "").names),
        is_question_answering_(source.has("qa_outputs.weight")) {}

  ConvertedWeights convert() {
    check_tensors();
    token_tables();
    for (const std::string& name : source_.names()) {
      if (source_.is_buffer(name) || is_token_table(name)) continue;
      const Tensor tensor = source_.stored(name, source_.shape(name));
      if (name == kPositionEmbeddings) {
        add(name, without_reserved(tensor, config_.max_tokens(), plan_.max_positions));
      } else if (name == kDecoderPositions) {
        const Index rows = config_.decoder->max_tokens();
        add(name, without_reserved(tensor, rows, rows));
      } else {
        layer_tensor(name, tensor);
      }
    }
    return {.tensors = std::move(result_),
            .architecture =
                is_question_answering_ ? "LEDForQuestionAnswering" : "LEDForConditionalGeneration"};
  }

 private:
  /// Nothing that the model reads may be missing or of another shape.
  void check_tensors() const {
    const Weights recording = Weights::recording(&source_);
    const Encoder encoder(config_, recording, DType::f32);
    const Decoder decoder(config_, recording, DType::f32);
    for (const WeightRecord& tensor : recording.recorded()) {
      const bool has_reserved_rows =
          tensor.name == kPositionEmbeddings || tensor.name == kDecoderPositions;
      source_.stored(tensor.name, has_reserved_rows && source_.has(tensor.name)
                                      ? source_.shape(tensor.name)
                                      : tensor.shape);
    }
  }
  static bool is_token_table(const std::string& name) {
    return name == kWordEmbeddings || name == kEncoderTokens || name == kDecoderTokens ||
           name == kOutputTokens;
  }
  /// Both halves stand behind a prefix in the classes that have a head.
  static bool is_of_halves(const std::string& name) {
    return is_of_encoder(name) || name.starts_with("decoder.");
  }

  void add(const std::string& name, const Tensor& tensor) {
    const std::string stored =
        is_of_halves(name) ? std::string(names_.prefixes[0]) + names_.file_name(name) : name;
    try {
      // The bias of the logits is a buffer, which stays fp32.
      const bool keeps = !plan_.dtype || name == kLogitsBias;
      result_.emplace_back(stored, keeps ? tensor : tensor.to(*plan_.dtype));
    } catch (const Error& error) {
      fail("tensor {}: {}", quote(stored), error.what());
    }
  }

  Tensor table(const std::string& own) const {
    return source_.stored(token_table(config_, source_, own),
                          {config_.vocab_size, config_.hidden_size});
  }

  /// LED has no factor for rows of tokens: where the source has one it goes into the tables, of
  /// which the output's stays as it is.
  void token_tables() {
    const bool scales = config_.embedding_scale != 1;
    const auto scaled = [&](const Tensor& rows) {
      return scales ? kernels::scaled(rows, static_cast<float>(config_.embedding_scale)) : rows;
    };
    const bool apart = scales || !config_.tie_word_embeddings;
    const Tensor encoder = scaled(table(kEncoderTokens));
    add(kWordEmbeddings, source_.has(kWordEmbeddings) ? scaled(table(kWordEmbeddings)) : encoder);
    const auto uses = std::array<std::pair<const char*, Tensor>, 3>{
        {{kEncoderTokens, encoder},
         {kDecoderTokens, scaled(table(kDecoderTokens))},
         {kOutputTokens, table(kOutputTokens)}}};
    for (const auto& [name, rows] : uses) {
      if (name == kOutputTokens && is_question_answering_) continue;
      if (apart || !rows.is_same_as(result_.front().second)) add(name, rows);
    }
  }

  /// Rows that belong to no token come first in files of BART, and in allenai's own.
  Tensor without_reserved(const Tensor& rows, Index tokens, Index count) const {
    const Index reserved = rows.rows() - tokens;
    require(reserved == 0 || reserved == 2,
            "{}: expected a table of {} or {} positions, found {} rows", source_.path(), tokens,
            tokens + 2, rows.rows());
    return kernels::tile_rows(rows, {.source_reserved = reserved, .count = count});
  }

  void layer_tensor(const std::string& name, const Tensor& tensor) {
    const bool known = is_of_halves(name) || name == kLogitsBias || name.starts_with("qa_outputs.");
    require(known,
            "{}: expected an encoder with a decoder that writes texts or answers questions, which "
            "LED can do, found a tensor {}",
            source_.path(), quote(name));
    add(name, tensor);
    if (config_.has_global_projections() || !name.starts_with("encoder.layer.")) return;
    for (const std::string projection : {"self.query", "self.key", "self.value"}) {
      const std::size_t place = name.find(projection);
      if (place == std::string::npos) continue;
      add(std::string(name).insert(place + projection.size(), "_global"), tensor);
    }
  }

  const EncoderConfig& config_;
  const Weights& source_;
  const WeightPlan& plan_;
  const TensorNames& names_;
  bool is_question_answering_;
  std::vector<std::pair<std::string, Tensor>> result_;
};

std::vector<std::string> generation_keys() {
  std::vector<std::string> keys = {"force_bos_token_to_be_generated"};
  const GenerationOptions none;
  for_each_generation_option(
      [&](const char* name, const char*, const auto&) {
        const std::string key = name;
        if (!key.ends_with("_token_id") || key.starts_with("forced_")) keys.push_back(key);
      },
      none);
  return keys;
}

}  // namespace

bool is_original_led(const Json& config, const std::string& name) {
  const formats::ConfigReader reader(config, name);
  return reader.string("model_type", "") == "bart" && reader.has("attention_window");
}

void update_original_led(Json& config, const std::string& name) {
  update_original_windows(config, name);
  require(!config.contains("attention_dilation"),
          "{}: attention_dilation: expected 1 everywhere, which LED computes, found {}", name,
          formats::shown(config.value("attention_dilation", Json())));
  config["model_type"] = "led";
}

ConvertedWeights convert_led_weights(const EncoderConfig& config, const Weights& source,
                                     const WeightPlan& plan) {
  return LedConverter(config, source, plan).convert();
}

Json led_config(const Json& source, const EncoderConfig& config, const std::vector<Index>& windows,
                Index max_positions) {
  Json json = source;
  for (const std::string& key : generation_keys()) json.erase(key);
  // Keys of the source class, other names of sizes, and the file's own history.
  for (const char* key :
       {"_name_or_path", "transformers_version", "max_position_embeddings", "scale_embedding",
        "hidden_size", "num_attention_heads", "num_hidden_layers", "attention_probs_dropout_prob",
        "initializer_range", "gradient_checkpointing", "task_specific_params", "classif_dropout",
        "add_bias_logits", "normalize_before", "normalize_embedding", "add_final_layer_norm",
        "static_position_embeddings", "extra_pos_embeddings"}) {
    json.erase(key);
  }
  const DecoderConfig& decoder = *config.decoder;
  const bool ties = config.tie_word_embeddings && config.embedding_scale == 1;
  json["model_type"] = "led";
  json["is_encoder_decoder"] = true;
  json["vocab_size"] = config.vocab_size;
  json["d_model"] = config.hidden_size;
  json["encoder_layers"] = config.layers;
  json["encoder_attention_heads"] = config.heads;
  json["encoder_ffn_dim"] = config.intermediate_size;
  json["decoder_layers"] = decoder.layers;
  json["decoder_attention_heads"] = decoder.heads;
  json["decoder_ffn_dim"] = decoder.intermediate_size;
  json["activation_function"] = name_of(config.activation);
  json["dropout"] = config.hidden_dropout;
  json["attention_dropout"] = config.attention_dropout;
  json["activation_dropout"] = config.activation_dropout;
  json["init_std"] = config.recipe.initial.deviation;
  json["attention_window"] = windows;
  json["max_encoder_position_embeddings"] = max_positions;
  json["max_decoder_position_embeddings"] = decoder.max_tokens();
  json["pad_token_id"] = config.pad_token_id;
  json["decoder_start_token_id"] = decoder.start_token_id;
  json["tie_word_embeddings"] = ties;
  return json;
}

Json generation_config(const std::string& folder, const Json& config, const EncoderConfig& model) {
  const std::filesystem::path file = std::filesystem::path(folder) / "generation_config.json";
  if (std::filesystem::exists(file)) {
    Json own = formats::read_json(file.string());
    own.erase("transformers_version");
    return own;
  }
  Json made = Json::object();
  for (const std::string& key : generation_keys()) {
    const auto found = config.find(key);
    if (found != config.end() && !found->is_null()) made[key] = Json(*found);
  }
  const auto token = [&](const char* key, std::optional<Index> otherwise) {
    const auto found = config.find(key);
    const bool is_given = found != config.end() && !found->is_null();
    if (is_given) made[key] = Json(*found);
    if (!is_given && otherwise) made[key] = *otherwise;
  };
  const DecoderTraits& traits = *model.family->decoder;
  token("bos_token_id", traits.begin_token);
  token("pad_token_id", model.traits().defaults.pad_token_id);
  token("eos_token_id", traits.end_token);
  token("decoder_start_token_id", traits.start_token);
  if (made.value("force_bos_token_to_be_generated", Json(false)) == true) {
    made["forced_bos_token_id"] = made["bos_token_id"];
  }
  made.erase("force_bos_token_to_be_generated");
  return made;
}

}  // namespace longformer::models
