#include "text/tokenizer_class.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "core/error.h"
#include "text/json_stream.h"

namespace longformer::text {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr std::array<std::string_view, 7> kRoles = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

Json read_if_present(const std::string& path) {
  if (!fs::exists(path)) return Json::object();
  return read_json_tables(path, TableLayout::none).rest;
}

std::string text_member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

TokenizerClass class_named(std::string_view name) {
  using Class = TokenizerClass;
  static const std::map<std::string_view, Class> classes{
      {"BertTokenizer", Class::bert},
      {"DistilBertTokenizer", Class::bert},
      {"ElectraTokenizer", Class::bert},
      {"MobileBertTokenizer", Class::bert},
      {"SqueezeBertTokenizer", Class::bert},
      {"LayoutLMTokenizer", Class::bert},
      {"FunnelTokenizer", Class::funnel},
      {"MPNetTokenizer", Class::mpnet},
      {"RobertaTokenizer", Class::roberta},
      {"LongformerTokenizer", Class::roberta},
      {"LEDTokenizer", Class::roberta},
      {"BartTokenizer", Class::roberta},
      {"GPT2Tokenizer", Class::gpt2},
      {"XLMRobertaTokenizer", Class::xlm_roberta},
      {"CamembertTokenizer", Class::xlm_roberta},
      {"AlbertTokenizer", Class::albert},
      {"T5Tokenizer", Class::t5},
      {"MBartTokenizer", Class::mbart},
      {"MBart50Tokenizer", Class::mbart},
      {"DebertaV2Tokenizer", Class::deberta}};
  constexpr std::string_view kFast = "Fast";
  if (name.ends_with(kFast)) name.remove_suffix(kFast.size());
  const auto found = classes.find(name);
  return found == classes.end() ? Class::generic : found->second;
}

// The class of a model type. Our own encoders with other attention name the type they are built on.
std::string class_of_model(const Json& config) {
  static const std::map<std::string, std::string> classes{{"bert", "BertTokenizer"},
                                                          {"distilbert", "DistilBertTokenizer"},
                                                          {"electra", "ElectraTokenizer"},
                                                          {"mobilebert", "MobileBertTokenizer"},
                                                          {"squeezebert", "BertTokenizer"},
                                                          {"layoutlm", "LayoutLMTokenizer"},
                                                          {"nomic_bert", "BertTokenizer"},
                                                          {"megatron-bert", "BertTokenizer"},
                                                          {"funnel", "FunnelTokenizer"},
                                                          {"mpnet", "MPNetTokenizer"},
                                                          {"roberta", "RobertaTokenizer"},
                                                          {"longformer", "LongformerTokenizer"},
                                                          {"led", "LEDTokenizer"},
                                                          {"bart", "BartTokenizer"},
                                                          {"gpt2", "GPT2Tokenizer"},
                                                          {"data2vec-text", "RobertaTokenizer"},
                                                          {"camembert", "CamembertTokenizer"},
                                                          {"xlm-roberta", "XLMRobertaTokenizer"},
                                                          {"albert", "AlbertTokenizer"},
                                                          {"t5", "T5Tokenizer"},
                                                          {"pegasus", "PegasusTokenizer"},
                                                          {"bigbird_pegasus", "PegasusTokenizer"},
                                                          {"pegasus_x", "PegasusTokenizer"},
                                                          {"mbart", "MBartTokenizer"},
                                                          {"deberta-v2", "DebertaV2Tokenizer"}};
  const std::string base = text_member(config, "base_model_type");
  const auto found = classes.find(base.empty() ? text_member(config, "model_type") : base);
  return found == classes.end() ? std::string() : found->second;
}

ClassSettings read_settings(const FolderOptions& options, const Json& model) {
  using Class = TokenizerClass;
  ClassSettings settings;
  settings.name = text_member(options.config, "tokenizer_class");
  if (settings.name.empty()) settings.name = text_member(model, "tokenizer_class");
  if (settings.name.empty()) settings.name = class_of_model(model);
  settings.kind = class_named(settings.name);
  const bool is_bert = settings.kind == Class::bert || settings.kind == Class::funnel;
  if (is_bert || settings.kind == Class::mpnet) {
    settings.bert = bert_normalization(options);
  } else if (settings.kind == Class::roberta || settings.kind == Class::gpt2) {
    settings.add_prefix_space = flag(options, "add_prefix_space").value_or(false);
    if (settings.kind == Class::roberta) {
      settings.trim_offsets = flag(options, "trim_offsets").value_or(true);
    }
  } else if (settings.kind == Class::xlm_roberta || settings.kind == Class::albert) {
    settings.add_prefix_space = flag(options, "add_prefix_space");
  } else if (settings.kind == Class::mbart) {
    settings.language = text_member(options.config, "src_lang");
    settings.target_language = text_member(options.config, "tgt_lang");
    settings.language_first = settings.name.starts_with("MBart50");
  }
  if (const std::string side = text_member(options.config, "truncation_side"); !side.empty()) {
    require(side == "left" || side == "right",
            "{}: expected left or right for truncation_side, found '{}'", options.config_file,
            side);
    settings.truncates_left = side == "left";
  }
  return settings;
}

}  // namespace

FolderOptions read_folder_options(const fs::path& folder) {
  FolderOptions options;
  options.config_file = (folder / "tokenizer_config.json").string();
  options.added_file = (folder / "added_tokens.json").string();
  options.config = read_if_present(options.config_file);
  if (!options.config.contains("added_tokens_decoder")) {
    options.special = read_if_present((folder / "special_tokens_map.json").string());
    options.added = read_if_present(options.added_file);
  }
  options.settings = read_settings(options, read_if_present((folder / "config.json").string()));
  return options;
}

std::optional<bool> flag(const FolderOptions& options, const std::string& key) {
  if (!options.config.contains(key) || options.config[key].is_null()) return std::nullopt;
  require(options.config[key].is_boolean(), "{}: expected true or false for {}, found {}",
          options.config_file, key, options.config[key].dump());
  return options.config[key].get<bool>();
}

BertNormalization bert_normalization(const FolderOptions& options) {
  const bool lowercase = flag(options, "do_lower_case").value_or(true);
  return {.lowercase = lowercase,
          .strip_accents = flag(options, "strip_accents").value_or(lowercase),
          .space_chinese = flag(options, "tokenize_chinese_chars").value_or(true)};
}

std::optional<AddedToken> token_of(const Json& value, bool special) {
  if (value.is_string()) {
    return AddedToken{.content = value.get<std::string>(), .normalized = false, .special = true};
  }
  if (!value.is_object() || !value.contains("content") || !value["content"].is_string()) {
    return std::nullopt;
  }
  const auto on = [&](const char* key, bool otherwise) {
    return value.contains(key) && value[key].is_boolean() ? value[key].get<bool>() : otherwise;
  };
  AddedToken token;
  token.content = value["content"].get<std::string>();
  token.special = special || on("special", false);
  token.single_word = on("single_word", false);
  token.left_strip = on("lstrip", false);
  token.right_strip = on("rstrip", false);
  token.normalized = on("normalized", !token.special);
  return token;
}

std::optional<AddedToken> named_token(const FolderOptions& options, const std::string& role) {
  for (const auto* source : {&options.special, &options.config}) {
    if (source->contains(role + "_token")) {
      if (auto token = token_of((*source)[role + "_token"], true)) return token;
    }
  }
  return std::nullopt;
}

std::vector<AddedToken> further_special_tokens(const FolderOptions& options) {
  std::vector<AddedToken> tokens;
  const auto add = [&](const Json& value) {
    if (auto token = token_of(value, true)) tokens.push_back(std::move(*token));
  };
  for (const auto& [key, value] : options.config.items()) {
    if (key.ends_with("_token") && std::ranges::find(kRoles, key) == kRoles.end()) add(value);
  }
  for (const auto* key : {"additional_special_tokens", "extra_special_tokens"}) {
    for (const auto* source : {&options.config, &options.special}) {
      if (!source->contains(key)) continue;
      const auto& listed = (*source)[key];
      if (!listed.is_array() && !listed.is_object()) continue;
      for (const auto& value : listed) add(value);
    }
  }
  return tokens;
}

}  // namespace longformer::text
