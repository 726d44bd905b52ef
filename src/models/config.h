// config.json of the encoders (docs/spec/encoder.md#a1).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "kernels/activation.h"
#include "kernels/attention/spec.h"
#include "models/decoder_config.h"
#include "models/feature_config.h"
#include "models/layer_recipe.h"
#include "models/linformer_config.h"
#include "models/reformer_config.h"

namespace longformer::models {

using kernels::Activation;
using kernels::HeadPattern;

struct Family;
struct EncoderTraits;

/// "gelu", "gelu_new", "quick_gelu", …: the hidden_act of config.json.
std::string_view name_of(Activation activation);
/// Activation that the key hidden_act names. Throws Error for an unknown name.
Activation activation_of(const formats::ConfigReader& config, const std::string& key = "hidden_act",
                         const std::string& otherwise = "gelu");

/// Dropout while training of what the last layer of a head is given.
struct HeadDropout {
  double documents = 0, choices = 0, tokens = 0, spans = 0;
};

/// An object that one head has in config.json, and the name of the file for messages.
struct HeadSettings {
  std::string file;
  nlohmann::ordered_json object;
};

/// A table of tokens in place of layers (docs/spec/other-vectors.md#v1).
struct StaticTable {
  /// Rows in the file: fewer than tokens where some share one.
  Index stored_rows = 0;
  /// The file says the row of each token, and a factor of it.
  bool has_mapping = false, has_weights = false;
  /// Unknown tokens of a text do not count.
  bool drops_unknown = false;
};

/// Sizes and constants of an encoder; every number is within the limits that read_config checks.
struct EncoderConfig {
  /// Its row in the table of families; never null in a configuration that was read.
  const Family* family = nullptr;
  Index vocab_size = 0;
  Index hidden_size = 0;
  /// Rows of the table of tokens are multiplied by it.
  double embedding_scale = 1;
  /// Width of the embedding tables; what differs from hidden_size is projected to it.
  Index embedding_size = 0;
  Index layers = 0;
  Index heads = 0;
  Index intermediate_size = 0;
  Activation activation = Activation::gelu;
  /// Rows of the position table.
  Index max_position_embeddings = 0;
  /// Rows of the token type table. Where the family has none they are zeros, for the two types that
  /// BERT's tokenizers tell apart.
  Index type_vocab_size = 0;
  double layer_norm_eps = 0;
  Index pad_token_id = 0;
  LayerRecipe recipe;
  HeadRecipe head;
  /// Pattern of each head of each layer: a window, or everything.
  std::vector<std::vector<HeadPattern>> patterns;
  /// Dropout while training: of embeddings and the results of sub-layers, and of attention
  /// probabilities.
  double hidden_dropout = 0;
  double attention_dropout = 0;
  /// Between the two layers of the feed-forward block.
  double activation_dropout = 0;
  HeadDropout head_dropout;
  bool tie_word_embeddings = true;
  /// architectures[0], such as "LongformerForMaskedLM"; empty when config.json has none.
  std::string architecture;
  /// The token that ends a question (Longformer); absent keys are 2, as in `transformers`.
  Index sep_token_id = 2;
  /// Names of the classes in order: id2label, else LABEL_0 to LABEL_{num_labels − 1}.
  std::vector<std::string> labels;
  /// Kinds of edges between tokens (models/edges.h); empty in most models.
  std::vector<std::string> edges;
  /// "regression", "single_label_classification", "multi_label_classification", or empty.
  std::string problem_type;
  /// Present in a Linformer, and in a Performer.
  std::optional<LinformerConfig> linformer;
  std::optional<FeatureConfig> features;
  /// Present in a Reformer, whose layers are those of recipe in what they share with others.
  std::optional<ReformerConfig> reformer;
  /// Objects of the file whose keys end with "_head": a head reads its own.
  std::map<std::string, HeadSettings> head_settings;
  /// Present in a model that reads a text and writes another.
  std::optional<DecoderConfig> decoder;
  /// Present where a table is the whole model.
  std::optional<StaticTable> table;
  /// Keys of the file that nothing here reads and that may change results, in one line; mostly
  /// empty.
  std::string unused_keys;

  const EncoderTraits& traits() const;
  /// The model_type of config.json.
  std::string_view model_type() const;
  /// Whether tokens can have global attention: some layer has windows, or the family has globals.
  bool has_global_attention() const;
  /// Whether global tokens have projections of their own, for which the model was trained; where
  /// there are none, heads have no global tokens by default.
  bool has_global_projections() const;
  const std::vector<HeadPattern>& pattern(Index layer) const {
    return patterns[static_cast<std::size_t>(layer)];
  }
  /// Total window of each layer in tokens, that of its undilated heads, 0 where it sees everything;
  /// empty for attention without windows.
  std::vector<Index> windows() const;

  Index head_size() const { return recipe.head_size.value_or(hidden_size / heads); }
  Index key_heads() const { return recipe.key_heads.value_or(heads); }
  /// Numbers of a last hidden state, which heads read: those of both streams of a Reformer.
  Index last_size() const { return reformer ? 2 * hidden_size : hidden_size; }
  /// Tokens of every text from which axial positions are trained; 0: texts may have any number.
  Index trained_length() const {
    const bool is_axial = reformer && !recipe.has_position_table;
    return is_axial ? reformer->axial_shape[0] * reformer->axial_shape[1] : 0;
  }
  /// Width of the queries of all heads, and of the keys.
  Index query_width() const { return heads * head_size(); }
  Index key_width() const { return key_heads() * head_size(); }
  /// Position row of the first token.
  Index first_position() const;
  /// Longest document in tokens, special tokens included.
  Index max_tokens() const { return max_position_embeddings - first_position(); }
  /// Positions below it can be computed: without a table also those of longer documents.
  Index position_limit() const;
};

/// Reads a config.json file. Absent keys take the class defaults of `transformers`. Throws Error
/// that names file, key, expected and found.
EncoderConfig read_config(const std::string& path);

/// The configuration of a folder, or of an adapter of it that has one. Throws Error.
EncoderConfig read_folder_config(const std::string& folder, const std::string& adapter = {});

/// Parses an object that is already read.
EncoderConfig parse_config(const formats::ConfigReader& config);

}  // namespace longformer::models
