// The masked-LM head of Longformer, RoBERTa and BERT (spec.md A.6).
#pragma once

#include "models/checkpoint.h"
#include "models/config.h"
#include "ops/context.h"
#include "ops/linear.h"

namespace longformer::models {

/// logits = decoder(LayerNorm(activation(dense(x)))) + bias.
class MaskedLmHead {
 public:
  /// Whether the checkpoint has the tensors of the head.
  static bool present(const EncoderConfig& config, const Checkpoint& weights);

  /// The decoder is the one of the file, else, when the configuration ties them, the word embedding
  /// table.
  MaskedLmHead(const EncoderConfig& config, const Checkpoint& weights, DType dtype);

  /// hidden [rows, D] to logits [rows, V] fp32.
  Tensor forward(const ops::Context& context, const Tensor& hidden) const;

 private:
  ops::Linear dense_;
  ops::LayerNorm norm_;
  ops::Linear decoder_;
};

}  // namespace longformer::models
