// Guessing hidden tokens of plain text (docs/spec/encoder.md#a6, docs/spec/training.md#c3).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/frame/task.h"
#include "longformer/options.h"
#include "ops/normalization.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

const Task& masked_lm();

/// logits = decoder(LayerNorm(activation(dense(x)))) + bias; dense leads to the width of the
/// embeddings.
class MaskedLmHead final : public Head {
 public:
  /// The decoder is the one of the file, else, when the configuration ties them, the word embedding
  /// table. Throws Error when a tensor is missing or of another shape than the configuration says.
  MaskedLmHead(const models::EncoderConfig& config, const models::LayerSource& source);

  bool per_token() const override { return true; }
  Tensor logits(const ops::Context& context, const EncoderStates& states) const override {
    return logits_of_rows(context, states.hidden);
  }
  Tensor logits_of_rows(const ops::Context& context, const Tensor& hidden) const override;
  /// The logits of all rows are never in memory.
  ops::LossSum loss(const ops::Context& context, const EncoderStates& states,
                    const Targets& targets, const HeadLossOptions& options) const override;

 private:
  /// Input of the decoder.
  Tensor transform(const ops::Context& context, const Tensor& hidden) const;

  /// The layer before the decoder, and its norm, in most families.
  std::optional<ops::Linear> dense_;
  ops::LayerNorm norm_;
  ops::Linear decoder_;
};

/// Text of some files that is packed into rows and masked.
std::unique_ptr<DataSet> masked_text(std::vector<std::string> files, const DataOptions& options,
                                     const MaskingOptions& masking);

/// Tokens of a row: those that are asked for, or what the model takes. Throws Error for more.
Index masked_row_tokens(const models::EncoderConfig& config, const MaskingOptions& masking);

}  // namespace longformer::tasks
