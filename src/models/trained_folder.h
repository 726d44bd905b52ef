// A trained model as a Hugging Face folder (docs/spec/encoder.md#a2, docs/spec/training.md#c3).
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/config.h"
#include "models/convert/files.h"
#include "models/weights.h"

namespace longformer::models {

struct TrainedFolder {
  /// Folder of the tokenizer and of tensors that were not trained.
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
  /// Context of a passage, for config_sentence_transformers.json; empty leaves it.
  std::string passage_context = {};
};

/// The JSON of a folder's config.json for a model of another head or other labels; empty labels
/// leave them.
nlohmann::ordered_json trained_config(const nlohmann::ordered_json& source,
                                      const std::string& architecture,
                                      const std::vector<std::string>& labels,
                                      const std::string& problem_type);

/// Whether a weight is of what adapters are made for, encoder and decoder, rather than of a head,
/// which is trained whole beside them.
bool is_kept_by_adapters(const EncoderConfig& config, const std::string& name);

/// The name that a tensor has in the file of a model with a head.
std::string written_name(const EncoderConfig& config, const std::string& name);

struct WrittenAdapter {
  /// The folder of the model that it was trained for, and architectures[0] of its config.json.
  std::string base, architecture;
  /// The name that a tensor of the model has in the class that adapters are for.
  std::function<std::string(const std::string& name)> name_of;
};

/// Writes the adapter of a training, adapter_config.json and adapter_model.safetensors, into a
/// folder that exists. Throws Error.
void write_adapter(const WrittenAdapter& written, const Weights& weights,
                   const std::filesystem::path& target);

/// Writes config.json, model.safetensors in fp32 and the files of the tokenizer into a folder that
/// exists; of a training of an adapter, the adapter in place of the model. Throws Error.
void write_trained_folder(const TrainedFolder& trained, const Weights& weights,
                          const std::filesystem::path& target);

/// Puts the values of a folder that was written so back into the parameters. Throws Error.
void read_trained_folder(const std::filesystem::path& folder, const Weights& weights);

}  // namespace longformer::models
