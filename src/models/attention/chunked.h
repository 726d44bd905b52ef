// Attention over chunks of neighbours or of tokens with one hash (Reformer, arXiv 2001.04451;
// docs/spec/other-attentions.md#h3), of language models and encoders.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/attention/attention.h"
#include "models/hash_rotations.h"
#include "ops/sorted_chunks.h"

namespace longformer::models {

struct ChunkedPast;

/// The layers of a Reformer, in whatever model they are.
struct ReformerLayers {
  ReformerConfig reformer;
  Index hidden_size = 0, heads = 0, head_size = 0, intermediate_size = 0;
  Activation activation = Activation::relu;
  bool attention_bias = false;
  /// Tokens do not see those behind them.
  bool causal = true;
  /// Projections of a layer are one tensor, "query_key_value"; else "query", "key" and "value", or
  /// in hashed layers "query_key" and "value".
  bool packs_projections = true;
  /// Dropout of sub-layers, and of the probabilities of local layers.
  double dropout = 0, attention_dropout = 0;
  /// Name of a part of a layer: one of those above, "attention_output", "attention_norm", "up",
  /// "down" or "feed_forward_norm".
  std::string (*name)(Index layer, std::string_view part) = nullptr;
};

/// Reads a text at once, or, where it is causal, on from a state token by token, as the caches of
/// transformers do.
class ChunkedAttention {
 public:
  ChunkedAttention(const ReformerLayers& layers, Index layer, const LayerSource& source,
                   std::shared_ptr<const Rotations> rotations);

  /// x [n, D] to [n, heads · head size]. Who sees whom is found anew where `seen` is empty, which
  /// then keeps it; else it is as it was.
  Tensor forward(const ops::Context& context, const Tensor& x, const LayerInput& in,
                 std::shared_ptr<const ops::SortedChunks>& seen) const;
  std::unique_ptr<LayerState> start(DType dtype, Index streams) const;

 private:
  bool hashes() const { return kind_ == ChunkLayer::lsh; }
  /// `visible` is empty, or has a number for each token: 0 for a masked one.
  kernels::ChunkedDocument whole_text(const ops::Context& context, const Tensor& key,
                                      const kernels::AttentionDocument& rows,
                                      std::span<const std::uint8_t> visible, ChunkedPast* past,
                                      std::size_t stream) const;
  kernels::ChunkedDocument next_token(const ops::Context& context, const Tensor& key,
                                      const kernels::AttentionDocument& rows, ChunkedPast& past,
                                      std::size_t stream) const;
  void observe(const ops::Context& context, const LayerInput& in, const ops::SortedChunks& seen,
               const ops::ProbabilityInputs& inputs) const;
  std::vector<kernels::ChunkedDocument> documents(const ops::Context& context, const Tensor& key,
                                                  const LayerInput& in) const;

  ReformerConfig reformer_;
  ChunkLayer kind_;
  bool causal_;
  ReformerConfig::Chunks chunks_;
  Index heads_, head_size_;
  double dropout_;
  std::uint64_t place_;
  ops::Linear query_key_value_;
  /// Keys of hashed layers are queries of one length.
  ops::LayerNorm key_norm_;
  std::shared_ptr<const Rotations> rotations_;
};

}  // namespace longformer::models
