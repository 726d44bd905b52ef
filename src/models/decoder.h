// The decoders of LED and BART, and of Pegasus and its kin: they write texts about what an encoder
// has read (docs/spec/led-and-generation.md#b4, #b15).
//
// R tokens of the texts that are written, D hidden size, V vocabulary.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/decoder_block.h"
#include "models/network.h"
#include "ops/embedding.h"
#include "ops/loss.h"

namespace longformer::models {

/// A bias of the logits that nothing trains.
inline constexpr const char* kLogitsBias = "final_logits_bias";

class Decoder {
 public:
  /// Without its output it gives hidden states alone. Throws Error when a weight is missing or of
  /// another shape than the configuration says.
  Decoder(const EncoderConfig& config, const Weights& weights, DType dtype, bool has_output = true);

  Index vocabulary_size() const { return embeddings_.words.dimension(0); }

  /// A state without streams.
  State begin(DType dtype) const { return layers_.start(dtype, 0); }
  /// Adds a stream, which has written nothing, for a document of hidden states [n, D]; they are not
  /// needed any more. `mask` is 1 where a token is visible; empty for all.
  void read(const ops::Context& context, const Tensor& hidden, std::span<const std::uint8_t> mask,
            State& state) const;

  /// Texts to be read by the decoder: ids and starts count, one text for each document of the
  /// source, or for each stream of a state, which it follows. Last hidden states, [R, D]. Throws
  /// Error for texts that are longer than the table of positions.
  Tensor forward(const ops::Context& context, const Batch& texts, SourceStates source,
                 const PassOptions& options = {}) const;
  Tensor forward(const ops::Context& context, const Batch& texts, State& state,
                 const PassOptions& options = {}) const;

  /// From hidden states [R, D] to [R, V] fp32 of the token that follows each.
  Tensor logits(const ops::Context& context, const Tensor& hidden) const;

  /// The loss of the labels, one for each row of the texts.
  ops::LossSum loss(const ops::Context& context, const Tensor& hidden,
                    std::span<const std::int32_t> labels,
                    const ops::LossOptions& options = {}) const;

 private:
  Tensor run(const ops::Context& context, const Batch& texts, SharedInput shared,
             const PassOptions& options) const;

  DecoderConfig config_;
  double dropout_;
  /// Dropout of the embeddings is behind all places of the layers.
  std::uint64_t embedding_place_;
  ops::EmbeddingTables embeddings_;
  std::vector<std::shared_ptr<const DecoderBlock>> blocks_;
  Stack layers_;
  /// Behind the last layer.
  std::optional<ops::LayerNorm> final_norm_;
  std::optional<ops::Linear> lm_head_;
};

}  // namespace longformer::models
