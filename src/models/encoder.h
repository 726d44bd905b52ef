// The encoder of all families that have one: embeddings, layers, pooler (docs/spec/encoder.md#a3,
// #a5; docs/spec/modern-encoders.md#layers).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/attention/global_local.h"
#include "models/axial_table.h"
#include "models/distances.h"
#include "models/funnel.h"
#include "models/network.h"
#include "models/reversible_stack.h"
#include "ops/embedding.h"

namespace longformer::models {

inline constexpr const char* kWordEmbeddings = "embeddings.word_embeddings.weight";
/// The same table as a dense layer without a name of its own: a tied decoder.
inline constexpr const char* kWordEmbeddingLayer = "embeddings.word_embeddings";
inline constexpr const char* kPositionEmbeddings = "embeddings.position_embeddings.weight";
inline constexpr const char* kPooler = "pooler.dense";

class Encoder final : public Network {
 public:
  /// Throws Error when a weight is missing or of another shape than the configuration says.
  Encoder(const EncoderConfig& config, const Weights& weights, DType dtype);

  Tensor forward(const ops::Context& context, const Batch& batch,
                 const PassOptions& options = {}) const override;
  State start(DType dtype, Index streams = 1) const override;

  /// Throws Error for a text of a length that a training of the weights does not take.
  void check_trained(Index length) const {
    if (axial_) axial_->check_trained(length);
  }

  /// Tokens that forward() was given so far: what passes cost, whatever batches they are in.
  std::int64_t tokens_run() const { return tokens_run_.load(std::memory_order_relaxed); }

  /// Rows of the word embeddings, [n, E] fp32, before they are scaled.
  Tensor word_rows(const ops::Context& context, std::span<const std::int32_t> ids) const;
  /// Whether word embeddings are normalised with nothing added: any multiple of a row means the
  /// same, so that its gradient stands at right angles to it.
  bool normalises_words_alone() const { return normalises_words_alone_; }

  bool has_pooler() const { return pooler_.has_value(); }
  /// tanh(W x + b) of the first token of every document, [documents, D] fp32.
  Tensor pool(const ops::Context& context, const Tensor& hidden, const Batch& batch) const;

 private:
  /// `words` as PassOptions has it.
  Tensor embed(const ops::Context& context, const Batch& batch, const Tensor* words) const;
  std::shared_ptr<SharedInput> shared_input(const ops::Context& context, const Batch& batch,
                                            const PassOptions& options) const;

  ops::EmbeddingTables embeddings_;
  /// The norm of embeddings that are dropped before it.
  std::optional<ops::LayerNorm> embedding_norm_;
  std::optional<ops::Linear> projection_;
  std::optional<GlobalRows> global_rows_;
  std::optional<AxialTable> axial_;
  Stack layers_;
  /// In place of them in a Reformer.
  std::optional<ReversibleStack> reversible_;
  /// The way through them, where their rows become fewer.
  std::optional<Funnel> funnel_;
  /// Behind the last layer.
  std::optional<ops::LayerNorm> final_norm_;
  std::vector<std::unique_ptr<Rotary>> rotations_;
  Distances distances_;
  std::optional<ops::Linear> pooler_;
  double dropout_;
  bool has_global_attention_;
  bool normalises_words_alone_ = false;
  mutable std::atomic<std::int64_t> tokens_run_ = 0;
};

/// Position row of every token. Families whose positions follow the row of padding count the tokens
/// that are not padding from there on, and give padding that row (docs/spec/encoder.md#a3).
std::vector<std::int32_t> position_rows(const EncoderConfig& config,
                                        std::span<const std::int32_t> ids);

/// Whether a tensor belongs to the embeddings or layers, rather than to the pooler or a head.
bool is_of_encoder(const std::string& name);

/// The projection of all tokens that a projection of global tokens is a copy of after conversion;
/// empty for other tensors.
std::string local_projection(const std::string& name);

/// The tensors of an encoder without pooler, in the order of the model.
std::vector<WeightRecord> encoder_tensors(const EncoderConfig& config);

}  // namespace longformer::models
