// config.json of the language models that read from left to right (docs/spec/file-formats.md#o1): a
// format of our own.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "formats/json.h"
#include "kernels/attention/spec.h"
#include "models/binary_partition.h"
#include "models/config.h"
#include "models/feature_config.h"
#include "models/reformer_config.h"
#include "models/routing_config.h"
#include "models/span_config.h"
#include "models/sparse_config.h"
#include "text/characters.h"

namespace longformer::models {

inline constexpr std::string_view kLanguageModelType = "longformer-lm";
/// Folders of before, with attention "window" and "alphabet" for "vocabulary".
inline constexpr std::string_view kCharacterLmType = "longformer-character-lm";

/// Characters that a layer sees before one at most: more than anybody reads with dense attention.
inline constexpr Index kMaxReach = Index{1} << 24;

/// The past that a character sees: a window (docs/spec/language-models.md#d), all that was read, or
/// its segment and what is kept of those before: their rows (Transformer-XL,
/// docs/spec/language-models.md#g1), and of older ones rows that stand for several (Compressive
/// Transformer, docs/spec/language-models.md#g2), or sums of features over all that was read
/// (Performer, docs/spec/low-rank-and-kernels.md#f), or chunks of neighbours and of tokens with one
/// hash (Reformer, docs/spec/other-attentions.md#h3), or near tokens and some of the far ones
/// (Sparse Transformer, docs/spec/other-attentions.md#h2), or as many tokens as each head has
/// learned (Adaptive Attention Span, docs/spec/other-attentions.md#h4), or those of its clusters
/// (Routing Transformer, docs/spec/other-attentions.md#routing), or near tokens, and spans that are
/// the longer the farther they are (BP-Transformer, docs/spec/other-attentions.md#h11).
enum class LmAttention {
  window,
  dense,
  recurrent,
  compressive,
  performer,
  reformer,
  sparse,
  adaptive,
  routing,
  binary_partition
};
std::string_view name_of(LmAttention attention);

/// How a model knows the order of what it reads (docs/spec/file-formats.md#o1,
/// docs/spec/language-models.md#k).
enum class Positions {
  relative,    ///< a term of the scores, by distance (Transformer-XL)
  sinusoidal,  ///< sines and cosines that are added to the embeddings
  learned,     ///< a table that is added to the embeddings
  infused,     ///< sines and cosines that are added in every layer to what becomes queries and keys
  none,
  axial,          ///< rows of two tables, side by side, that are added to the embeddings (Reformer)
  distance_keys,  ///< a learned key of each distance (Adaptive Attention Span)
  grid,  ///< two tables that are added to the embeddings: of rows and columns (Sparse Transformer)
  tree_keys,  ///< a learned key of each level of the tree and place in it (BP-Transformer)
};
std::string_view name_of(Positions positions);

/// How new weights are drawn: with initializer_range, or in proportion to the width of what they
/// read, with outputs of sub-layers divided by √(2 layers) and an output layer of zeros (Sparse
/// Transformer).
enum class Initialization { normal, scaled };

/// f_c of docs/spec/language-models.md#g2-compression: how several rows of the memory become one.
enum class Compression { convolution, mean, largest, dilated, most_used };

/// The loss that the weights of a compression learn from (docs/spec/language-models.md#g2), or,
/// where there are none, what is reported. By back-propagation they learn from the loss of the text
/// that looks at what they have made.
enum class CompressionLoss { none, attention, autoencoding, backpropagation };

/// Rows of a segment, and of what is kept; an evaluation may have others than the training.
struct MemoryLengths {
  Index segment = 512;
  Index memory = 512;
  Index compressed = 0;
  /// Farther rows are as far as this; 0: none is.
  Index clamp = 0;
  /// Every character sees as many rows, itself among them, as the memory is long.
  bool same_length = false;

  /// Most rows that a character may see: of both kinds, with those that wait for others to be
  /// compressed with, and of its segment.
  Index most_rows(Index least_compressed) const {
    return compressed + memory + least_compressed + segment;
  }
};

/// Every number is within the limits that parsing checks.
struct LanguageModelConfig {
  LmAttention attention = LmAttention::window;
  text::Alphabet alphabet = text::Alphabet::bytes;
  /// The model reads tokens of a tokenizer that lies beside it, instead of an alphabet.
  bool reads_tokens = false;
  /// Which byte each number is, where the model reads chosen bytes alone.
  std::vector<std::uint8_t> symbols = {};
  /// 0 while it is that of a tokenizer that is not known yet.
  Index vocab_size = 0;
  Index hidden_size = 0;
  Index layers = 0;
  Index heads = 0;
  Index head_size = 0;
  Index intermediate_size = 0;
  Activation activation = Activation::gelu;
  /// Norms come behind the sub-layers, as in the first Transformer, instead of before them.
  bool post_norm = false;
  /// Embeddings are multiplied with √D.
  bool scales_embedding = true;
  /// The projections of attention have biases.
  bool attention_bias = false;
  /// u and v are those of all layers.
  bool shares_relative_biases = true;

  /// A head of a layer sees so many characters before its own, that many steps apart; kMaxReach
  /// where everything is seen, none with memories. Of spans that are learned the longest of each
  /// layer, once the weights are there.
  std::vector<Index> windows = {};
  /// For each layer the gap between what a dilated head sees, 0 for none (paper, Table 12).
  std::vector<Index> dilations = {};
  /// The last so many heads of a layer are dilated.
  Index dilated_heads = 0;

  Positions positions = Positions::relative;
  /// Most characters of a text, for learned and axial positions and those of a grid; else 0.
  Index max_positions = 0;
  /// Characters of the longest texts that trained it; 0: not known.
  Index trained_length = 0;

  /// Models whose heads learn their spans have these.
  SpanConfig spans = {};

  /// Routing Transformers have these.
  RoutingConfig routing = {};

  /// Sparse Transformers have these.
  SparseConfig sparse = {};

  /// BP-Transformers have these.
  TreeConfig tree = {};

  /// Performers have these.
  FeatureConfig features = {};

  /// Reformers have these.
  ReformerConfig reformer = {};

  /// Models with memories have these.
  MemoryLengths lengths = {};
  Index compression_rate = 1;
  Compression compression = Compression::convolution;
  CompressionLoss compression_loss = CompressionLoss::none;
  /// Segments of a training pass: more than one where gradients go from one to the compression
  /// before it.
  Index unroll_segments = 1;
  /// How far the pairs of each convolution before the last are apart, where it is dilated.
  std::vector<Index> dilation_rates = {};
  /// Compressed rows have W_r and v of their own, and distances as if no memory were between.
  bool separate_positions = true;
  /// Memories begin with rows of zeros instead of none.
  bool begins_with_zeros = false;

  /// Dropout of embeddings, sinusoids, sub-layers and the last hidden state; of attention
  /// probabilities.
  double dropout = 0;
  double attention_dropout = 0;
  double layer_norm_eps = 0;
  bool final_layer_norm = true;
  bool tie_word_embeddings = true;
  double initializer_range = 0;
  Initialization initialization = Initialization::normal;

  /// "bytes", "text8" or "tokenizer".
  std::string_view vocabulary() const;
  bool has_windows() const { return attention == LmAttention::window; }
  /// Everything that was read, at any distance, be it through other layers.
  bool sees_everything() const {
    return attention == LmAttention::dense || has_features() || is_sparse() || reads_whole() ||
           has_tree();
  }
  /// A text is sorted as a whole; tokens that come behind it are read one by one.
  bool reads_whole() const { return has_chunks() || has_routes(); }
  bool has_routes() const { return attention == LmAttention::routing; }
  bool is_sparse() const { return attention == LmAttention::sparse; }
  bool has_spans() const { return attention == LmAttention::adaptive; }
  bool has_tree() const { return attention == LmAttention::binary_partition; }
  bool has_memory() const { return attention == LmAttention::recurrent || is_compressive(); }
  bool has_features() const { return attention == LmAttention::performer; }
  bool has_chunks() const { return attention == LmAttention::reformer; }
  /// Numbers of a last hidden state: those of both streams of a Reformer.
  Index last_size() const { return has_chunks() ? 2 * hidden_size : hidden_size; }
  bool is_compressive() const { return attention == LmAttention::compressive; }
  bool learns_compression() const {
    return is_compressive() &&
           (compression == Compression::convolution || compression == Compression::dilated);
  }
  /// The layers have a loss of their own beside that of the text.
  bool has_compression_loss() const {
    return compression_loss == CompressionLoss::attention ||
           compression_loss == CompressionLoss::autoencoding;
  }
  /// Least rows that are compressed at a time, a multiple of the rate; one less may wait.
  Index least_compressed() const {
    const Index needed =
        compression_rate + std::accumulate(dilation_rates.begin(), dilation_rates.end(), Index{0});
    return (needed + compression_rate - 1) / compression_rate * compression_rate;
  }
  /// Pattern of the heads of a layer with windows.
  std::vector<kernels::HeadPattern> pattern(Index layer) const;
  /// Distance of the farthest character that a layer sees.
  Index reach(Index layer) const;
  /// How far back the last layer sees through those below it.
  Index receptive_field() const;
};

/// The key of the most characters of a text.
inline constexpr const char* kMostPositions = "max_position_embeddings";
inline constexpr const char* kTrainedLength = "trained_length";

/// Name of a tensor of a layer: "layers.3.up.weight".
std::string name_in(Index layer, const std::string& tensor);

/// Throws Error unless the lengths are possible for the model; `name` stands for their source.
void check(const MemoryLengths& lengths, const LanguageModelConfig& config,
           const std::string& name);

/// Throws Error that names file, key, expected and found.
LanguageModelConfig parse_language_model(const formats::ConfigReader& config);
LanguageModelConfig read_language_model(const std::string& path);

/// The JSON that parse_language_model reads back.
nlohmann::ordered_json to_json(const LanguageModelConfig& config);

/// Windows for the layers of a model, as a list of numbers in a file. Throws Error unless there is
/// one for each layer.
std::vector<Index> layer_numbers(const formats::ConfigReader& config, const std::string& key,
                                 Index layers, Index least);

}  // namespace longformer::models
