// config.json of the autoregressive character Longformer (spec.md D.1, D.2): a format of our own.
#pragma once

#include <string>
#include <vector>

#include "core/dtype.h"
#include "formats/json.h"
#include "kernels/attention/spec.h"
#include "text/characters.h"

namespace longformer::models {

inline constexpr std::string_view kCharacterLmType = "longformer-character-lm";

/// Every number is within the limits that parsing checks.
struct CharacterLmConfig {
  text::Alphabet alphabet = text::Alphabet::bytes;
  Index vocab_size = 0;
  Index hidden_size = 0;
  Index layers = 0;
  Index heads = 0;
  Index head_size = 0;
  Index intermediate_size = 0;
  /// In each layer a head sees so many characters before its own, that many steps apart.
  std::vector<Index> windows;
  /// For each layer the gap between what a dilated head sees, 0 for none (paper, Table 12).
  std::vector<Index> dilations;
  /// The last so many heads of a layer are dilated.
  Index dilated_heads = 0;
  /// Dropout of embeddings, sinusoids, sub-layers and the last hidden state; of attention
  /// probabilities.
  double dropout = 0;
  double attention_dropout = 0;
  double layer_norm_eps = 0;
  bool final_layer_norm = true;
  bool tie_word_embeddings = true;
  double initializer_range = 0;

  /// What the heads of a layer see.
  std::vector<kernels::HeadPattern> pattern(Index layer) const;
  /// Distance of the farthest character that a layer sees.
  Index reach(Index layer) const;
  /// How far back the last layer sees through those below it.
  Index receptive_field() const;
};

/// Throws Error that names file, key, expected and found.
CharacterLmConfig parse_character_lm(const formats::ConfigReader& config);
CharacterLmConfig read_character_lm(const std::string& path);

/// What parse_character_lm reads back.
nlohmann::ordered_json to_json(const CharacterLmConfig& config);

/// Windows for the layers of a model, as a list of numbers in a file. Throws Error unless there is
/// one for each layer.
std::vector<Index> layer_numbers(const formats::ConfigReader& config, const std::string& key,
                                 Index layers, Index least);

}  // namespace longformer::models
