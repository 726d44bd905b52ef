// A trained model as a Hugging Face folder (spec.md A.2, C.3).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/config.h"
#include "models/convert/files.h"
#include "models/weights.h"

namespace longformer::models {

struct TrainedFolder {
  /// Where the tokenizer is, and tensors that were not trained.
  std::filesystem::path source;
  /// config.json as it will be written, and what it says.
  nlohmann::ordered_json json;
  EncoderConfig config;
  /// Special tokens that the tokenizer of the source does not have, with their ids.
  AddedTokens added_tokens = {};
  /// Give every layer the trained query, key and value for its global projections too: a masked LM
  /// trains without global tokens.
  bool globals_from_local = false;
  /// For vectors of texts: the files of sentence-transformers go along, with this longest text.
  std::optional<Index> max_text_tokens = std::nullopt;
  /// What a passage is read with, for config_sentence_transformers.json; empty leaves it.
  std::string passage_context = {};
};

/// The JSON of a folder's config.json for a model of another head or other labels; empty labels
/// leave them.
nlohmann::ordered_json trained_config(const nlohmann::ordered_json& source,
                                      const std::string& architecture,
                                      const std::vector<std::string>& labels,
                                      const std::string& problem_type);

/// Writes config.json, model.safetensors in fp32 and the files of the tokenizer into a folder that
/// exists. Throws Error.
void write_trained_folder(const TrainedFolder& trained, const Weights& weights,
                          const std::filesystem::path& target);

/// Puts the values of a folder that was written so back into the parameters. Throws Error.
void read_trained_folder(const std::filesystem::path& folder, const Weights& weights);

}  // namespace longformer::models
