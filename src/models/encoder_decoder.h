// Models that read a text and write another: LED and BART (spec.md B).
//
// n tokens of the sources, R tokens of the texts that are written, D hidden size, V vocabulary.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/decoder.h"
#include "models/encoder.h"
#include "ops/loss.h"

namespace longformer::models {

class EncoderDecoder {
 public:
  /// Throws Error when a weight is missing or of another shape than the configuration says.
  EncoderDecoder(EncoderDecoderConfig config, const Weights& weights, DType dtype);

  const EncoderDecoderConfig& config() const { return config_; }
  const Encoder& encoder() const { return encoder_; }

  /// The last hidden states of the encoder.
  SourceStates encode(const ops::Context& context, const Batch& batch,
                      const PassOptions& options = {}) const;

  /// A state with a stream for each document of the source, which has written nothing. The hidden
  /// states are not needed any more.
  State begin(const ops::Context& context, const SourceStates& source) const;

  /// Texts to be read by the decoder: ids and starts count, one text for each document of the
  /// source, or for each stream of a state, which it follows. Last hidden states, [R, D].
  Tensor decode(const ops::Context& context, const Batch& texts, SourceStates source,
                const PassOptions& options = {}) const;
  Tensor decode(const ops::Context& context, const Batch& texts, State& state,
                const PassOptions& options = {}) const;

  /// From hidden states [R, D] to [R, V] fp32 of the token that follows each.
  Tensor logits(const ops::Context& context, const Tensor& hidden) const;

  /// The loss of the labels, one for each row of the texts.
  ops::LossSum loss(const ops::Context& context, const Tensor& hidden,
                    std::span<const std::int32_t> labels,
                    const ops::LossOptions& options = {}) const;

 private:
  Tensor run_decoder(const ops::Context& context, const Batch& texts, SharedInput shared,
                     const PassOptions& options) const;

  EncoderDecoderConfig config_;
  Encoder encoder_;
  ops::EmbeddingTables embeddings_;
  std::vector<std::shared_ptr<const DecoderBlock>> blocks_;
  Stack layers_;
  ops::Linear lm_head_;
};

}  // namespace longformer::models
