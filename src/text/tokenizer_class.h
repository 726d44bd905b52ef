// The files beside the vocabulary of a tokenizer, and the classes of transformers that read them.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.h"

namespace longformer::text {

/// Tokenizer classes that put keys of tokenizer_config.json above tokenizer.json, each with its
/// kin: DistilBERT and ELECTRA count as bert; Longformer, LED and BART as roberta.
enum class TokenizerClass {
  generic,
  bert,
  funnel,
  mpnet,
  roberta,
  gpt2,
  xlm_roberta,
  albert,
  t5,
  mbart,
  deberta
};

/// The normalizer of the BERT classes.
struct BertNormalization {
  bool lowercase = true;
  bool strip_accents = true;
  bool space_chinese = true;
};

/// Settings of tokenizer_config.json that stand above tokenizer.json.
struct ClassSettings {
  /// The name that the folder gives, such as "BertTokenizerFast"; empty when it gives none.
  std::string name;
  TokenizerClass kind = TokenizerClass::generic;
  std::optional<BertNormalization> bert;  ///< WordPiece
  std::optional<bool> add_prefix_space;   ///< Byte level and Unigram
  std::optional<bool> trim_offsets;       ///< Byte level
  /// Language of a text, which mBART writes behind it, or before it (MBart50), in place of what
  /// tokenizer.json says; empty when the file does not say. And that of the texts to learn.
  std::string language, target_language;
  bool language_first = false;
  /// Truncation takes tokens from the beginning; absent when the file does not say.
  std::optional<bool> truncates_left;
};

/// tokenizer_config.json, special_tokens_map.json and added_tokens.json as far as they exist.
/// The two others count only where tokenizer_config.json has no added_tokens_decoder, as in
/// transformers.
struct FolderOptions {
  nlohmann::json config = nlohmann::json::object();
  nlohmann::json special = nlohmann::json::object();
  nlohmann::json added = nlohmann::json::object();
  std::string config_file, added_file;
  ClassSettings settings;
};

/// Reads the files and finds the class: tokenizer_class of tokenizer_config.json, else of
/// config.json, else the one that belongs to model_type. Throws Error for malformed files.
FolderOptions read_folder_options(const std::filesystem::path& folder);

/// The truth value of a key; nothing when it is absent or null.
std::optional<bool> flag(const FolderOptions& options, const std::string& key);

/// The normalizer of a BERT class with the keys of tokenizer_config.json.
BertNormalization bert_normalization(const FolderOptions& options);

/// The token of a role ("bos", "mask", …) if one of the files names it.
std::optional<AddedToken> named_token(const FolderOptions& options, const std::string& role);

/// A token as the files write it: text, or an object with options. Nothing for other types.
std::optional<AddedToken> token_of(const nlohmann::json& value, bool special);

/// Special tokens beyond the usual roles, in the order in which transformers adds them.
std::vector<AddedToken> further_special_tokens(const FolderOptions& options);

}  // namespace longformer::text
