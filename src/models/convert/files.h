// Files of a converted folder besides its weights, and how the folder takes its place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "formats/json.h"
#include "formats/new_folder.h"

namespace longformer::models {

/// Writes a JSON value as `transformers` formats it. Throws Error.
void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& value);

using AddedTokens = std::vector<std::pair<std::string, std::int32_t>>;

struct TokenizerCopy {
  std::filesystem::path source;
  std::filesystem::path target;
  /// Longest document, special tokens included; 0 keeps that of sentence-transformers.
  Index max_tokens = 0;
  /// "BertTokenizer", "RobertaTokenizer", …: what `transformers` takes where the source names none.
  std::string tokenizer_class;
  /// Special tokens that the source does not have, with their ids.
  AddedTokens added = {};
};

/// Copies the files of the tokenizer, where there is one, with the new length and the added tokens;
/// truncation and padding that tokenizer.json asks for are taken out. Throws Error.
void copy_tokenizer(const TokenizerCopy& copy);

/// Copies the files of the tokenizer as they are. Throws Error.
void copy_tokenizer_files(const std::filesystem::path& source, const std::filesystem::path& target);

/// Writes the class of the tokenizer to tokenizer_config.json of the target if it has none: the
/// target has another model type, which would mean another class.
void keep_tokenizer_class(const std::filesystem::path& folder, const std::filesystem::path& target);

/// Copies modules.json of sentence-transformers, where there is one, the folders that it names, and
/// the files beside it with the new length. Throws Error.
void copy_sentence_transformers(const TokenizerCopy& copy);

/// Puts what a passage is read with into config_sentence_transformers.json. Throws Error.
void set_passage_context(const std::filesystem::path& folder, const std::string& context);

/// A folder beside the target that is removed unless it takes the target's place.
class StagingFolder {
 public:
  explicit StagingFolder(const std::filesystem::path& target) : folder_(target) {}

  const std::filesystem::path& path() const { return folder_.path(); }

  /// Takes the target's place in one step, so that whoever opens it meets the old folder or the new
  /// one. Files of the old folder that no conversion writes stay. Throws Error
  /// or filesystem_error, and then leaves the target as it was.
  void commit() const;

 private:
  void carry_over() const;

  formats::NewFolder folder_;
};

}  // namespace longformer::models
