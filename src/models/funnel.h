// The layers of a Funnel Transformer (Dai et al. 2020, arXiv 2006.03236;
// docs/spec/other-attentions.md#funnel): blocks that each begin with half as many rows, and a
// decoder that brings them back to the tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/attention/attention.h"
#include "models/batch.h"
#include "models/stack.h"
#include "ops/pooled_rows.h"

namespace longformer::models {

/// Names of the decoder's tensors begin so.
inline constexpr const char* kFunnelDecoder = "encoder.decoder.";

/// "blocks of 4, 4 and 4 layers …", for people.
std::string description_of(const FunnelRecipe& recipe);

/// Rows that the queries and the keys of a layer have in a document, and the block of the layer;
/// the decoder's have that of the tokens, −1.
struct FunnelPlace {
  Index block = 0;
  /// It is the first of its block, or of the decoder.
  bool is_first = false;
};
/// One for each layer that a document goes through: those of a block come several times where it
/// repeats them.
std::vector<FunnelPlace> funnel_places(const FunnelRecipe& recipe);

/// Rows of a document of n tokens in each block.
std::vector<Index> funnel_lengths(const FunnelRecipe& recipe, Index n);
/// Rows of the queries, and of the keys, of each layer for a document of n tokens.
struct FunnelPairs {
  Index queries = 0, keys = 0;
};
std::vector<FunnelPairs> funnel_pairs(const FunnelRecipe& recipe, Index n);

/// The row of a block that each token of a document became a part of; −1 for those that are in
/// none.
std::vector<Index> token_rows(const FunnelRecipe& recipe, Index n, Index block);

/// The probabilities of a layer, [rows of queries, rows of keys], as those of tokens, [n, n]: each
/// token looks where its row does, or the last one for a token without a row, and the tokens of a
/// key share what it gets.
std::vector<float> token_probabilities(const FunnelRecipe& recipe, Index layer, Index n,
                                       std::span<const float> probabilities);

/// The rows of all documents in one block.
struct FunnelLevel {
  std::vector<Index> starts;
  std::vector<std::int32_t> types;
  /// 1 visible, 0 masked; empty when nothing is masked.
  std::vector<std::uint8_t> mask;
  /// The rows of the block before that each row is made of.
  std::shared_ptr<const std::vector<kernels::RowRange>> made_of = {};

  Index documents() const { return static_cast<Index>(starts.size()) - 1; }
  Index length(Index document) const { return starts[at(document) + 1] - starts[at(document)]; }
};

class Funnel {
 public:
  /// Adds its layers to the stack. Throws Error when a weight is missing or of another shape than
  /// the configuration says.
  Funnel(const EncoderConfig& config, const LayerSource& source, Stack& layers);

  /// Embedded tokens [n, D] through all layers. Without a decoder, and in the hidden states of
  /// blocks, each token has the state of the row that it became a part of; the last ones, which
  /// may be part of none, that of the last row.
  Tensor forward(const ops::Context& context, const Tensor& embedded, const Batch& batch,
                 const Stack& layers, const PassOptions& options) const;

 private:
  FunnelLevel pooled(const FunnelLevel& level) const;
  std::vector<FunnelLevel> levels_of(const Batch& batch) const;
  /// The shared input of layers whose queries are the rows of one level, and whose keys are those
  /// of the same, or of the one before; keys are `step` tokens apart.
  std::shared_ptr<SharedInput> input(const ops::Context& context, const FunnelLevel& queries,
                                     const FunnelLevel& keys, Index step) const;
  /// The rows of a block, for each token that of its own; zeros for tokens without one, or the
  /// last.
  Tensor spread(const ops::Context& context, const Tensor& x, const FunnelLevel& tokens,
                Index block, bool has_zeros) const;
  void spread_states(const ops::Context& context, const FunnelLevel& tokens,
                     std::vector<Tensor>& states) const;

  FunnelRecipe recipe_;
  std::vector<FunnelPlace> places_;
  Index hidden_size_, types_;
  double dropout_;
};

}  // namespace longformer::models
