// Attention over chunks of neighbours or of tokens with one hash (Reformer, arXiv 2001.04451;
// docs/spec/other-attentions.md#h3), of language models.
#pragma once

#include <memory>
#include <vector>

#include "models/attention/attention.h"
#include "models/hash_rotations.h"
#include "models/language_model_config.h"
#include "ops/sorted_chunks.h"

namespace longformer::models {

struct ChunkedPast;

/// Reads a text at once, or on from a state token by token, as the caches of transformers do.
class ChunkedAttention {
 public:
  ChunkedAttention(const LanguageModelConfig& config, Index layer, const LayerSource& source,
                   std::shared_ptr<const Rotations> rotations);

  /// x [n, D] to [n, heads · head size]. Who sees whom is found anew where `seen` is empty, which
  /// then keeps it; else it is as it was.
  Tensor forward(const ops::Context& context, const Tensor& x, const LayerInput& in,
                 std::shared_ptr<const ops::SortedChunks>& seen) const;
  std::unique_ptr<LayerState> start(DType dtype, Index streams) const;

 private:
  bool hashes() const { return kind_ == ChunkLayer::lsh; }
  kernels::ChunkedDocument whole_text(const ops::Context& context, const Tensor& key,
                                      const kernels::AttentionDocument& rows, ChunkedPast* past,
                                      std::size_t stream) const;
  kernels::ChunkedDocument next_token(const ops::Context& context, const Tensor& key,
                                      const kernels::AttentionDocument& rows, ChunkedPast& past,
                                      std::size_t stream) const;
  std::vector<kernels::ChunkedDocument> documents(const ops::Context& context, const Tensor& key,
                                                  const LayerInput& in) const;

  ReformerConfig reformer_;
  ChunkLayer kind_;
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
