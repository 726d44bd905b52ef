// The table of families: what models are known, and in what those of one kind differ.
//
// A family is one row in registry.cc. One that attends in a way of its own has a file in
// attention/.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "models/config.h"
#include "models/weights.h"

namespace longformer::models {

class Attention;     // attention/attention.h
struct LayerSource;  // layers.h

/// The layer between a document's first token and its classifier.
struct DocumentLayer {
  /// Empty: the pooler.
  std::string_view name = {};
  Activation activation = Activation::tanh;
  /// Its rows are half as wide as those that it reads.
  bool halves = false;
  /// Whether dropout comes before the layer too; it always comes behind it.
  bool drops_input = true;
  /// Name of a norm behind the layer; empty for none.
  std::string_view norm = {};
};

/// Parts of a masked-LM head; `.weight` and `.bias` follow.
struct MaskedLmNames {
  /// An empty `dense`: the decoder reads the hidden states.
  std::string_view dense, norm, decoder;
  /// The bias that is added to the logits, in order of preference: `transformers` adds the
  /// decoder's own, which is tied to the other only when the embeddings are tied.
  std::array<std::string_view, 2> bias;
  /// Absent: that of the layers, or that of heads where config.json has one.
  std::optional<Activation> activation = Activation::gelu;
  /// Whether all heads have the dense layer and its norm.
  bool is_shared = false;
  /// Whether a training changes the bias, which `transformers` may leave out.
  bool trains_bias = true;
};

/// Class defaults of `transformers` that differ between families.
struct EncoderDefaults {
  Index vocab_size = 30522;
  Index pad_token_id = 0;
  Index hidden_size = 768;
  Index layers = 12;
  Index heads = 12;
  Index intermediate_size = 3072;
  Index max_position_embeddings = 512;
  /// 0: token types have no table.
  Index types = 2;
  double layer_norm_eps = 1e-12;
  double hidden_dropout = 0.1;
  double attention_dropout = 0.1;
};

/// Key of a rate of dropout in config.json; empty: none.
struct DropoutKey {
  std::string_view key = {};
  std::optional<double> otherwise = std::nullopt;
};

/// In what encoders differ beside their sizes.
struct EncoderTraits {
  EncoderDefaults defaults = {};
  /// Keys whose names differ from those of BERT's config.json, as {BERT's, here}; empty for a value
  /// that is always the default.
  formats::ConfigReader::KeyNames keys = {};
  /// BERT's names among these keys that count before the other name, as in `transformers`.
  std::span<const std::string_view> aliases = {};
  /// Keys of folders of before, as {before, now}.
  formats::ConfigReader::KeyNames older_keys = {};
  /// The position_embedding_type that is computed.
  std::string_view position_type = "absolute";
  /// Advice for folders whose is_decoder is true.
  std::string_view decoder_advice = "decoders are not supported";
  /// Keys of config.json for which there is only one value here, which is the default.
  formats::ConfigReader::KeyNames fixed_keys = {};
  /// Positions begin behind the row of padding, and padding has that row (docs/spec/encoder.md#a3).
  bool positions_follow_padding = false;
  /// Rows of the position table before that of the first token, beside those that are counted in
  /// max_position_embeddings.
  Index reserved_positions = 0;
  bool has_token_types = true;
  /// Embeddings of a size of their own, with a projection behind them.
  bool projects_embeddings = false;
  /// Heads see attention_window tokens, attention_dilation steps apart, rather than everything.
  bool has_windows = false;
  /// config.json says how many rows stand for all (LinformerConfig), or by which features tokens
  /// are seen (FeatureConfig).
  bool has_projections = false;
  bool has_features = false;
  /// Tokens can see, and be seen by, all others through projections of their own.
  bool has_global_attention = false;
  std::unique_ptr<Attention> (*attention)(const EncoderConfig& config, Index layer,
                                          const LayerSource& source) = nullptr;
  /// Fills in the recipe of layers and heads, and the patterns, from keys of its own; null for
  /// families whose layers are BERT's.
  void (*read)(const formats::ConfigReader& config, EncoderConfig& model) = nullptr;

  /// Classification of documents, and the name of its last layer.
  DocumentLayer document_layer = {};
  std::string_view document_classifier = "classifier";
  std::string_view token_classifier = "classifier";
  /// The layer before the classifier of multiple choice.
  DocumentLayer choice_layer = {};
  std::string_view choice_classifier = "classifier";
  /// The layer before those of tokens and of answers; absent in most families.
  std::optional<DocumentLayer> token_layer = std::nullopt;
  std::string_view span_classifier = "qa_outputs";
  /// A feed-forward block before that layer; empty in most families.
  std::string_view span_block = {};
  /// Answers are no tokens of the question.
  bool hides_questions = false;
  /// Absent: the family has no masked-LM head. It works in the width of the embeddings.
  std::optional<MaskedLmNames> masked_lm = std::nullopt;
  /// Tensors of heads that no task here reads.
  std::span<const std::string_view> unread = {};

  /// Without a value of its own: that of the layers for documents and choices, none for spans.
  DropoutKey document_dropout = {}, choice_dropout = {}, span_dropout = {};
  /// Else tokens are dropped like documents.
  std::optional<DropoutKey> token_dropout = std::nullopt;
  /// Tokens are dropped like results of layers, rather than like documents.
  bool tokens_drop_as_layers = false;
  /// Whether there is dropout between attention and its norm, as behind the feed-forward.
  bool drops_attention_output = true;

  /// Tokenizer class of `transformers`, used if the folder names none.
  std::string_view tokenizer_class = "BertTokenizer";
};

/// In what families differ that have a decoder behind the encoder.
struct DecoderTraits {
  /// The key of the decoder's number of positions, and its class default.
  std::string_view positions_key;
  Index positions = 1024;
  /// Whether `scale_embedding` counts, and its class default.
  bool can_scale_embeddings = false, scales_embeddings = false;
  /// Name of the norm behind the last layer of decoders whose norms come before the sub-layers;
  /// empty for others.
  std::string_view final_norm = {};
  bool norms_embeddings = true;
  /// Class defaults of the tokens of generation. Without a start token texts that are learned begin
  /// with their own last token.
  std::optional<Index> start_token = 2, begin_token = 0;
  Index end_token = 2;
  /// `transformers` has a head for questions.
  bool answers_questions = true;
};

struct Family {
  /// The model_type of config.json.
  std::string_view model_type;
  /// The base_model_type of config.json, for families that only attend otherwise than others do;
  /// else empty.
  std::string_view base = {};
  /// Values of config.json that tell the family from others of its model_type.
  std::span<const std::pair<std::string_view, std::string_view>> told_by = {};
  /// How the class names of `transformers` begin; empty for a format of our own.
  std::string_view class_prefix;
  TensorNames names;
  /// Absent for language models.
  std::optional<EncoderTraits> encoder;
  /// Present for models that read a text and write another.
  std::optional<DecoderTraits> decoder = std::nullopt;
};

/// "longformer, bert or roberta": all encoders, for messages.
std::string encoder_names();
/// "led or bart": all that read a text and write another.
std::string encoder_decoder_names();

/// The family of a model_type, and of its base where it has one. Throws Error that says what there
/// is, and what could be done with a model that is known but not run. `name` is that of the file.
const Family& family_of(std::string_view model_type, const std::string& name,
                        std::string_view base = {});

/// The family of the same model_type whose values config.json has; else the given one.
const Family& told_apart(const Family& family, const formats::ConfigReader& config);

/// Whether the config.json of a folder, or a file, is that of a language model; false for what
/// cannot be read.
bool is_language_model(const std::string& folder_or_file);
/// Whether the model reads a text and writes another.
bool is_encoder_decoder(const std::string& folder_or_file);

}  // namespace longformer::models
