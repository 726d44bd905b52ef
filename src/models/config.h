// config.json of the encoders: Longformer, BERT and RoBERTa (spec.md A.1).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "formats/json.h"
#include "kernels/activation.h"

namespace longformer::models {

using kernels::Activation;

enum class ModelType { longformer, bert, roberta };

/// "longformer", "bert", "roberta": the model_type of config.json.
std::string_view name_of(ModelType type);

/// "gelu", "gelu_new", "relu", "silu", "tanh": the hidden_act of config.json.
std::string_view name_of(Activation activation);

/// Sizes and constants of an encoder; every number is within the limits that read_config checks.
struct EncoderConfig {
  ModelType model_type = ModelType::longformer;
  Index vocab_size = 0;
  Index hidden_size = 0;
  Index layers = 0;
  Index heads = 0;
  Index intermediate_size = 0;
  Activation activation = Activation::gelu;
  /// Rows of the position table.
  Index max_position_embeddings = 0;
  Index type_vocab_size = 0;
  double layer_norm_eps = 0;
  Index pad_token_id = 0;
  /// Total window of each layer, even; empty for dense attention.
  std::vector<Index> windows;
  double initializer_range = 0;
  /// Dropout while training: of embeddings and the results of sub-layers, of attention
  /// probabilities, and of what a classifier is given.
  double hidden_dropout = 0;
  double attention_dropout = 0;
  double classifier_dropout = 0;
  bool tie_word_embeddings = true;
  /// architectures[0], such as "LongformerForMaskedLM"; empty when config.json has none.
  std::string architecture;
  /// The token that ends a question (Longformer); absent keys are 2, as in `transformers`.
  Index sep_token_id = 2;
  /// Names of the classes in order: id2label, else LABEL_0 to LABEL_{num_labels − 1}.
  std::vector<std::string> labels;
  /// "regression", "single_label_classification", "multi_label_classification", or empty.
  std::string problem_type;

  Index head_size() const { return hidden_size / heads; }
  /// Position row of the first token. BERT counts from row 0; RoBERTa and Longformer keep the rows
  /// up to the pad id.
  Index first_position() const { return model_type == ModelType::bert ? 0 : pad_token_id + 1; }
  /// Longest document in tokens, special tokens included.
  Index max_tokens() const { return max_position_embeddings - first_position(); }
};

/// Reads a config.json file. Absent keys take the class defaults of `transformers`. Throws Error
/// that names file, key, expected and found.
EncoderConfig read_config(const std::string& path);

/// The same for an object that is parsed already.
EncoderConfig parse_config(const formats::ConfigReader& config);

}  // namespace longformer::models
