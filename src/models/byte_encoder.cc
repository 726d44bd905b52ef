#include "models/byte_encoder.h"

#include <array>
#include <string_view>

#include "core/error.h"
#include "models/config_limits.h"
#include "text/byte_tokens.h"

namespace longformer::models {
namespace {

using formats::ConfigReader;

bool has_bytes(const ConfigReader& config) {
  constexpr std::array<std::string_view, 2> kVocabularies = {"tokenizer", "bytes"};
  return config.choice("vocabulary", kVocabularies, "tokenizer") == 1;
}

void require_id(const ConfigReader& config, const char* key, Index expected) {
  const Index found = config.integer(key, expected, 0, kMaxVocabulary);
  require(found == expected, "{}: {}: expected {} for the vocabulary bytes, found {}",
          config.name(), key, expected, found);
}

void read_norm_first(const ConfigReader& config, EncoderConfig& model) {
  const bool usual = model.recipe.norm_first;
  const bool wanted = config.boolean("norm_first", usual);
  require(wanted || !usual,
          "{}: norm_first: expected true for a {}, whose norms are before the sub-layers, found "
          "false",
          config.name(), model.model_type());
  require(!wanted || !model.recipe.funnel,
          "{}: norm_first: expected false for a {}, whose norms are behind the sub-layers, found "
          "true",
          config.name(), model.model_type());
  if (!usual && wanted) model.recipe.norm_first = model.recipe.has_final_norm = true;
}

void read_pooling(const ConfigReader& config, EncoderConfig& model) {
  constexpr const char* kKey = "classifier_pooling";
  // The families of today that pool in several ways have read it.
  if (config.known().contains(kKey)) return;
  // Decoders read the last token alone.
  if (model.head.pooling == DocumentPooling::last) return;
  constexpr std::array<std::string_view, 2> kPooling = {"cls", "mean"};
  const std::size_t pooling = config.choice(kKey, kPooling, "cls");
  require(pooling == 0 || !model.traits().document_layer.name.empty(),
          "{}: {}: expected cls for a {}, whose pooler reads the first token, found mean (take the "
          "layers of roberta)",
          config.name(), kKey, model.model_type());
  model.head.pooling = static_cast<DocumentPooling>(pooling);
}

}  // namespace

EncoderDefaults with_vocabulary(const ConfigReader& config, const Family& family) {
  EncoderDefaults defaults = family.encoder->defaults;
  if (!has_bytes(config)) return defaults;
  require(!family.decoder,
          "{}: vocabulary: expected a tokenizer for a {}, which writes texts, found bytes",
          config.name(), family.model_type);
  defaults.vocab_size = text::kByteTokens;
  defaults.pad_token_id = text::kBytePad;
  return defaults;
}

void read_byte_encoder(const ConfigReader& config, EncoderConfig& model) {
  if (!has_bytes(config)) return;
  require(model.vocab_size >= text::kByteTokens,
          "{}: vocab_size: expected at least {} for the vocabulary bytes, found {}", config.name(),
          text::kByteTokens, model.vocab_size);
  require_id(config, "pad_token_id", text::kBytePad);
  require_id(config, "sep_token_id", text::kByteSep);
  model.sep_token_id = text::kByteSep;
  read_norm_first(config, model);
  read_pooling(config, model);
}

void spell_byte_ids(nlohmann::ordered_json& config) {
  if (config.value("vocabulary", nlohmann::ordered_json()) != "bytes") return;
  const auto set = [&](const char* key, Index value) {
    if (!config.contains(key)) config[key] = value;
  };
  set("vocab_size", text::kByteTokens);
  set("pad_token_id", text::kBytePad);
  set("sep_token_id", text::kByteSep);
}

}  // namespace longformer::models
