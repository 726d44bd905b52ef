// The encoder of Longformer, BERT and RoBERTa: embeddings, post-norm layers, pooler (spec.md A.3,
// A.5).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/batch.h"
#include "models/checkpoint.h"
#include "models/config.h"
#include "models/self_attention.h"
#include "ops/embedding.h"
#include "ops/normalization.h"

namespace longformer::models {

/// Which attention probabilities of a forward pass to look at.
struct AttentionObserver {
  /// Ascending.
  std::vector<Index> layers, heads;
  std::function<void(Index layer, const ops::HeadProbabilities&)> observe;
  /// Nothing else of the pass is needed: it ends after the last of the layers, and what it returns
  /// is unspecified.
  bool alone = false;
};

/// a = LayerNorm(dense(attention(x)) + x); LayerNorm(down(activation(up(a))) + a).
class EncoderLayer {
 public:
  EncoderLayer(const EncoderConfig& config, Index layer, const Checkpoint& weights, DType dtype);

  Tensor forward(const ops::Context& context, const Tensor& x, const SharedRows& rows,
                 const HeadObserver* observer) const;

 private:
  std::unique_ptr<SelfAttention> attention_;
  ops::Linear attention_output_;
  ops::LayerNorm attention_norm_;
  ops::FeedForward feed_forward_;
  ops::LayerNorm output_norm_;
  double dropout_;
  DropoutPlaces places_;
};

class Encoder {
 public:
  /// Throws Error when a weight is missing or of another shape than the configuration says.
  Encoder(const EncoderConfig& config, const Checkpoint& weights, DType dtype);

  /// Last hidden state, [n, D]. Appends the embeddings and the output of every layer to
  /// `hidden_states` unless it is null, and shows its attention to the observer unless that is.
  Tensor forward(const ops::Context& context, const Batch& batch,
                 std::vector<Tensor>* hidden_states = nullptr,
                 const AttentionObserver* observer = nullptr) const;

  bool has_pooler() const { return pooler_.has_value(); }
  /// tanh(W x + b) of the first token of every document, [documents, D] fp32.
  Tensor pool(const ops::Context& context, const Tensor& hidden, const Batch& batch) const;

  const Tensor& word_embeddings() const { return embeddings_.words; }

 private:
  ops::EmbeddingTables embeddings_;
  std::vector<EncoderLayer> layers_;
  std::optional<ops::Linear> pooler_;
  double dropout_;
  bool has_global_tokens_;
};

/// Position row of every token: BERT counts from 0; RoBERTa and Longformer count the tokens that
/// are not padding from pad_token_id + 1 on and give padding the row pad_token_id (spec.md A.3).
std::vector<std::int32_t> position_rows(const EncoderConfig& config,
                                        std::span<const std::int32_t> ids);

/// A LayerNorm of the checkpoint, "….weight" and "….bias".
ops::LayerNorm layer_norm(const EncoderConfig& config, const Checkpoint& weights,
                          const std::string& name);

/// A dense layer of the checkpoint.
ops::Linear linear(const Checkpoint& weights, const std::string& name, const Shape& shape,
                   DType dtype, std::optional<Activation> activation = std::nullopt,
                   kernels::LinearSlabs slabs = {});

}  // namespace longformer::models
