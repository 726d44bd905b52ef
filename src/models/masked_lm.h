// The masked-LM head of all encoders (spec.md A.6).
#pragma once

#include "models/config.h"
#include "models/layers.h"
#include "ops/context.h"
#include "ops/loss.h"
#include "ops/normalization.h"

namespace longformer::models {

/// logits = decoder(LayerNorm(activation(dense(x)))) + bias; dense leads to the width of the
/// embeddings.
class MaskedLmHead {
 public:
  /// Whether the weights have the tensors of the head.
  static bool present(const EncoderConfig& config, const Weights& weights);

  /// The decoder is the one of the file, else, when the configuration ties them, the word embedding
  /// table.
  MaskedLmHead(const EncoderConfig& config, const Weights& weights, DType dtype);

  Index vocabulary_size() const { return decoder_.out_features(); }

  /// hidden [rows, D] to logits [rows, V] fp32.
  Tensor forward(const ops::Context& context, const Tensor& hidden) const;

  /// Cross-entropy of those logits with the labels of the rows; the logits of all rows are never in
  /// memory.
  ops::LossSum loss(const ops::Context& context, const Tensor& hidden,
                    std::span<const std::int32_t> labels, const ops::LossOptions& options) const;

 private:
  MaskedLmHead(const EncoderConfig& config, const LayerSource& source);
  /// What the decoder is given.
  Tensor transform(const ops::Context& context, const Tensor& hidden) const;

  ops::Linear dense_;
  ops::LayerNorm norm_;
  ops::Linear decoder_;
};

}  // namespace longformer::models
