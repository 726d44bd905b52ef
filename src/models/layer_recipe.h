// The layers of an encoder as data, which a family fills in from its config.json
// (docs/spec/modern-encoders.md#layers).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "models/initial_values.h"
#include "models/rotary_config.h"
#include "models/sparse_config.h"
#include "ops/distance_keys.h"
#include "ops/feed_forward.h"

namespace longformer::models {

/// Biases by distance (ops/distance_bias.h), the same in all layers: a learned table of buckets, or
/// slopes.
enum class DistanceBias { none, buckets, slopes };

/// Keys and queries of distances from one table, as in DeBERTa (ops/distance_keys.h).
struct DistanceKeyRecipe {
  ops::LogBuckets buckets;
  /// The terms of queries with keys of distances, and of keys with queries of distances: scores are
  /// divided by √((1 + terms)·d), even where there is no table and they are left out.
  bool has_keys = true, has_queries = true, has_table = true;
  /// The table is projected as tokens are, not by layers of its own.
  bool shares_projections = false;
  /// The table is normalised.
  bool has_norm = false;
};

/// Rows of a table of positions: learned; sines and cosines, which files may have and no training
/// changes (Pegasus); or others, which no file has (PegasusX).
enum class PositionRows { learned, sinusoids, rounded_sinusoids };

/// Attention of PegasusX: tokens see their block and global tokens, which see everything.
struct GlobalLocalRecipe {
  /// Tokens of a block, and global tokens, which are no tokens of the text.
  Index block = 512, globals = 32;
  /// Blocks of every other layer begin half a block earlier.
  bool staggers = true;

  bool is_staggered(Index layer) const { return staggers && layer % 2 == 1; }
};

/// Attention of BigBird.
struct BlockRecipe {
  /// Tokens of a block, and blocks that the others draw while training.
  Index size = 64, random = 3;
  /// Blocks are drawn as `transformers` draws them; else the first one stands for them, as in use.
  bool draws_in_training = true;
};

/// Blocks of a Funnel Transformer, each with half the rows of the one before.
struct FunnelRecipe {
  /// Layers of each block, and how often each of them comes.
  std::vector<Index> block_sizes, block_repeats;
  /// Layers over all tokens behind the blocks, where there is such a decoder.
  Index decoder_layers = 2;
  bool has_decoder = true;
  /// Rows that become one are its largest numbers, not its mean.
  bool takes_largest = false;
  /// The first row of a document is never pooled, and has no position; then the last one may be
  /// left out.
  bool separates_first = true, drops_last = true;
  /// The first layer of a block reads all rows of the one before.
  bool pools_queries_only = true;
  /// Terms of positions begin with uniform numbers from 0 to it.
  double term_range = 0.1;
};

/// Attention of BlockBERT.
struct ShiftedBlockRecipe {
  /// Blocks of a text, whatever its length.
  Index blocks = 2;
  /// How many heads see the block that is 0, 1, … behind that of a token; the first one follows the
  /// last one. One number for each block; all heads are among them, in this order.
  std::vector<Index> heads_of_shift = {};
};

/// A convolution over the rows of a document, whose results are added to those of the first layer
/// (deberta-v2-xlarge).
struct ConvolutionRecipe {
  /// Rows that each row reads, an odd number of them.
  Index taps = 3;
  /// Groups of neighbouring numbers of a row, each of which becomes one of the result.
  Index groups = 1;
  kernels::Activation activation = kernels::Activation::tanh;
};

/// The defaults are those of BERT.
struct LayerRecipe {
  /// Norms come before the sub-layers, whose results are added; else behind the sums.
  bool norm_first = false;
  /// The attention of the first layer reads the embeddings as they are: their norm is its own.
  bool first_norm_is_identity = false;
  /// Results of sub-layers have norms too, before they are added; needs norm_first.
  bool norms_results = false;
  /// A norm behind the last layer.
  bool has_final_norm = false;
  /// Norms add a bias, and take the mean off their rows: else they are RMS norms.
  bool norm_bias = true, centres_norms = true;
  /// Is added to the weights of norms, which then are what gains differ from it.
  double gain_offset = 0;
  /// Projections of attention, and the layers of the feed-forward block, have biases.
  bool attention_bias = true, up_bias = true, down_bias = true;
  /// Query, key and value are one tensor: all queries, all keys, all values, or for each head its
  /// query, its key and its value.
  bool packs_projections = false, packs_by_head = false;
  /// Heads of keys and values, each of which a group of heads of queries reads, and width of a
  /// head; absent: as many as heads, and hidden_size / heads.
  std::optional<Index> key_heads = std::nullopt, head_size = std::nullopt;
  /// The feed-forward block is gated; its activation is that of the configuration.
  bool is_gated = false;
  /// Whether the second half of the wide rows is activated, not the first, and whether the halves
  /// are two tensors, "intermediate.first" and "intermediate.second".
  bool activates_second = false, splits_gate = false;
  /// Rows of queries and keys have a norm in each head.
  bool norms_heads = false;
  /// Tokens see those before them alone.
  bool is_causal = false;
  /// Embeddings have a norm.
  bool norms_embeddings = true;
  /// Tables of positions, and of token types, are added to the embeddings.
  bool has_position_table = true, has_type_table = true;
  PositionRows position_rows = PositionRows::learned;
  /// Rotary positions of the kinds of layers, and the kind of each layer; empty for none.
  std::vector<RotaryConfig> rotations = {};
  std::vector<std::size_t> rotation_of_layer = {};
  /// Names of the kinds in rope_parameters; empty where that is one object for all layers.
  std::vector<std::string_view> rotation_names = {};
  DistanceBias distance_bias = DistanceBias::none;
  /// Rows of the table of buckets.
  Index bucket_rows = 0;
  /// Keys and queries of distances.
  std::optional<DistanceKeyRecipe> distance_keys = std::nullopt;
  /// Absent in most models.
  std::optional<ConvolutionRecipe> convolution = std::nullopt;
  /// Tokens see blocks; absent where they see everything, or their windows.
  std::optional<BlockRecipe> blocks = std::nullopt;
  /// Heads see one of few blocks of a text; absent in other families.
  std::optional<ShiftedBlockRecipe> shifted_blocks = std::nullopt;
  /// Tokens see near tokens and far ones; absent in other families.
  std::optional<SparseConfig> sparse = std::nullopt;
  /// Tokens see their block and global tokens.
  std::optional<GlobalLocalRecipe> global_local = std::nullopt;
  /// The output projection of attention has a bias; absent: if the others have.
  std::optional<bool> attention_output_bias = std::nullopt;
  /// Layers in blocks of fewer and fewer rows.
  std::optional<FunnelRecipe> funnel = std::nullopt;
  /// How weights begin that are drawn.
  InitialValues initial = {};
  /// The row of padding in the table of tokens is not trained.
  bool has_padding_row = true;
  /// Embeddings are dropped before their norm.
  bool drops_before_norm = false;
  /// Dropout behind the output projection of attention; absent: that of sub-layers.
  std::optional<double> attention_output_dropout = std::nullopt;
  /// Dropout of the result of the feed-forward block; absent: that of sub-layers.
  std::optional<double> feed_forward_dropout = std::nullopt;
};

/// How a document becomes one row: its first token, the mean of its tokens, the mean of what the
/// layer of the head makes of each, or its last token, which the classifier reads as it is.
enum class DocumentPooling { first, mean, late, last };

/// The layer that heads have before their last one, where config.json describes it.
struct HeadRecipe {
  std::optional<kernels::Activation> activation = std::nullopt;
  bool has_bias = true;
  DocumentPooling pooling = DocumentPooling::first;
  /// The classifier of documents adds a bias.
  bool classifier_bias = true;
  /// The decoder of a masked-LM head adds a bias.
  bool decoder_bias = true;
};

}  // namespace longformer::models
