// The one part in which the families differ: who attends to whom. Each way is a file beside this.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/config.h"
#include "models/edges.h"
#include "models/layers.h"
#include "models/state.h"
#include "ops/attention_probabilities.h"
#include "ops/attention_shares.h"
#include "ops/context.h"
#include "ops/relative_terms.h"

namespace longformer::models {

/// Input of a decoder in addition to its own tokens: the last hidden states of the encoder.
struct SourceStates {
  /// [n, D]
  Tensor hidden;
  /// First row of each document, and the number of rows at the end.
  std::vector<Index> starts;
  /// 1 visible, 0 masked; empty when nothing is masked.
  std::vector<std::uint8_t> mask = {};
};

/// Data shared by the layers of one forward pass; backward passes keep it.
struct SharedInput {
  /// First row of each document, and the number of rows at the end.
  std::vector<Index> starts;
  std::shared_ptr<const kernels::AttentionRows> rows;
  /// The same rows without global tokens, for layers in which every token sees everything.
  std::shared_ptr<const kernels::AttentionRows> rows_without_globals = {};
  /// Makes the table of relative positions, whose row δ is that of the distance δ, as far as
  /// anything sees, [distances, D], or that of infused ones. Layers that have a state may do
  /// without it.
  std::function<Tensor()> make_distances = {};
  /// Edges between rows; null where there are none.
  std::shared_ptr<const kernels::EdgeRows> edges = {};
  /// Rotary positions of each kind of layer (LayerRecipe::rotations).
  std::vector<std::shared_ptr<const ops::Rotation>> rotations = {};
  /// Biases by distance (LayerRecipe::distance_bias).
  std::optional<Tensor> distance_bias = std::nullopt;
  /// Table of distances [P, D], and the row of each distance (LayerRecipe::distance_keys); that of
  /// a Funnel Transformer is in fp32, in the order of RowPlaces.
  std::optional<Tensor> distance_table = std::nullopt;
  std::shared_ptr<const std::vector<std::int32_t>> distance_rows = {};
  /// How rows stand to the kinds of keys (RelativePositions::kind_scores).
  std::shared_ptr<const ops::KindRelations> kind_relations = {};
  /// Tokens that each document has read before this pass; empty where none has.
  std::vector<Index> read = {};
  /// First token of each document, and the number of tokens at the end, where more rows than those
  /// of tokens pass the layers (TreeAttention); else empty.
  std::vector<Index> token_starts = {};
  /// Rows that are computed behind attention, ascending; the others stay as they are. Empty: all.
  std::vector<kernels::Range> computed = {};
  /// Row of the table of positions for every row, if positions are infused.
  std::vector<Index> places = {};
  /// For decoders: what the documents of the pass read, unless their state has it.
  std::optional<SourceStates> source = std::nullopt;

  /// That table, made when it is first asked for.
  const Tensor& distances() const {
    if (distances_.empty()) distances_ = make_distances();
    return distances_;
  }

 private:
  mutable Tensor distances_;
};

/// Looks at the probabilities of some heads of a layer while it runs.
struct HeadObserver {
  std::span<const Index> heads;
  std::function<void(const ops::HeadProbabilities&)> observe;
};

/// Losses that a model has beside that of its task, by name; scalars [1] fp32, with gradients.
using NamedLosses = std::vector<std::pair<std::string, Tensor>>;

/// The shares of attention of a layer with memories while all of them were full
/// (docs/spec/language-models.md#g2).
struct AttentionShares {
  /// Sums over queries: to compressed rows, to the memory, to the segment.
  ops::AgeShares compressed = {}, memory = {}, segment = {};
  double queries = 0;
};

/// Inputs of one layer besides its rows.
struct LayerInput {
  const SharedInput& shared;
  /// State that the layer keeps of earlier tokens; null at the beginning of texts.
  LayerState* state = nullptr;
  const HeadObserver* observer = nullptr;
  /// The hidden states of SharedInput::source, as the layer is to read them.
  const Tensor* source = nullptr;
  /// Takes the losses of the layer; null where nobody wants them.
  NamedLosses* losses = nullptr;
  /// Adds up where attention goes; null where nobody asks.
  AttentionShares* shares = nullptr;
  /// Called behind the first sub-layer; null where nobody waits for it.
  const std::function<void()>* halfway = nullptr;
  /// Values in place of the projected ones, [H, n, d], for a look at the probabilities.
  const Tensor* values = nullptr;

  void tell_halfway() const {
    if (halfway != nullptr) (*halfway)();
  }
};

/// Self-attention of one layer, up to and without its output projection.
class Attention {
 public:
  virtual ~Attention() = default;
  /// x [n, D] to [n, heads · head size].
  virtual Tensor forward(const ops::Context& context, const Tensor& x,
                         const LayerInput& in) const = 0;
  /// A fresh state for so many streams; null for layers that keep nothing.
  virtual std::unique_ptr<LayerState> start(DType /*dtype*/, Index /*streams*/) const {
    return nullptr;
  }
};

/// Heads of an attention, and their size.
struct HeadSizes {
  Index heads = 0, size = 0;
};
/// Shows the observer of a layer the probabilities of an attention that takes LayerInput::values:
/// [n, n] of each head for one document of n tokens, of which nothing was read before.
void observe_by_values(const ops::Context& context, const Attention& attention, const Tensor& x,
                       const LayerInput& in, HeadSizes sizes);

/// Numbers of the places where a model drops (ops::Context::dropout): those of embeddings, of a
/// head, and four for each layer, the first of them for attention probabilities.
inline constexpr std::uint64_t kEmbeddingPlace = 0;
inline constexpr std::uint64_t kHeadPlace = 1;
inline constexpr std::uint64_t kHeadDensePlace = 2;
constexpr std::uint64_t layer_place(Index layer) {
  return 4 * (static_cast<std::uint64_t>(layer) + 1);
}

/// Window and global tokens with projections of their own (Longformer paper §3.1,
/// docs/spec/attention.md#a4).
std::unique_ptr<Attention> longformer_attention(const EncoderConfig& config, Index layer,
                                                const LayerSource& source);

/// Every token attends to every token (BERT, RoBERTa and their kin).
std::unique_ptr<Attention> dense_attention(const EncoderConfig& config, Index layer,
                                           const LayerSource& source);

/// Likewise, with keys and queries of distances (DeBERTa,
/// docs/spec/modern-encoders.md#disentangled).
std::unique_ptr<Attention> disentangled_attention(const EncoderConfig& config, Index layer,
                                                  const LayerSource& source);

/// Blocks attend to their neighbours, to the first block and to the last one, which attend to
/// everything (BigBird, docs/spec/other-attentions.md#h1); as dense_attention where config.json
/// asks for that.
std::unique_ptr<Attention> bigbird_attention(const EncoderConfig& config, Index layer,
                                             const LayerSource& source);

/// Each head attends to one of few blocks of a text (BlockBERT,
/// docs/spec/other-attentions.md#h5).
std::unique_ptr<Attention> blockwise_attention(const EncoderConfig& config, Index layer,
                                               const LayerSource& source);

/// Tokens attend to near tokens and to far ones on both sides (Sparse Transformer,
/// docs/spec/other-attentions.md#h2-encoder).
std::unique_ptr<Attention> sparse_attention(const EncoderConfig& config, Index layer,
                                            const LayerSource& source);

/// Rows of a block attend to each other, or to those of the block before (Funnel Transformer,
/// docs/spec/other-attentions.md#funnel). Names of tensors begin with `name`.
std::unique_ptr<Attention> funnel_attention(const EncoderConfig& config, const std::string& name,
                                            std::uint64_t place, const LayerSource& source);

/// Every token attends to a few rows that stand for all (Linformer,
/// docs/spec/low-rank-and-kernels.md#e).
std::unique_ptr<Attention> linformer_attention(const EncoderConfig& config, Index layer,
                                               const LayerSource& source);

/// Every token attends to sums of features (Performer, docs/spec/low-rank-and-kernels.md#f).
std::unique_ptr<Attention> performer_attention(const EncoderConfig& config, Index layer,
                                               const LayerSource& source);

/// Parts common to the encoders.
LayerSource layer_source(const EncoderConfig& config, const Weights& weights, DType dtype);
ops::Linear query_key_value(const EncoderConfig& config, Index layer, const LayerSource& source);
/// Query, key and value in one layer, or the query apart from grouped keys and values.
std::vector<ops::Linear> projections(const EncoderConfig& config, Index layer,
                                     const LayerSource& source);
std::string self_attention_name(Index layer);

/// Heads that see the same keys: `term_of(n)` leaves them in a text of n tokens.
struct ObservedHeads {
  std::span<const Index> heads;
  std::function<ops::ScoreTerm(Index n)> term_of;
};
/// Shows the observer of a layer those of its heads that are among these.
void observe(const ops::Context& context, const LayerInput& in,
             const kernels::AttentionPattern& pattern, std::span<const Tensor> projected,
             const ObservedHeads& seen);

}  // namespace longformer::models
