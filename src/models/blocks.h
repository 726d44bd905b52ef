// The layers of a transformer around their attention: what is normalised where.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/attention/attention.h"
#include "ops/feed_forward.h"

namespace longformer::models {

class Block {
 public:
  virtual ~Block() = default;
  /// x [n, D] to [n, D].
  virtual Tensor forward(const ops::Context& context, const Tensor& x,
                         const LayerInput& in) const = 0;
  /// See Attention::start.
  virtual std::unique_ptr<LayerState> start(DType dtype, Index streams) const = 0;
};

struct BlockParts {
  std::shared_ptr<const Attention> attention;
  ops::Linear attention_output;
  ops::LayerNorm attention_norm;
  ops::FeedForward feed_forward;
  ops::LayerNorm feed_forward_norm;
  /// Norms of the results of both, before they are added, where there are such.
  ops::LayerNorm attention_result_norm = {}, feed_forward_result_norm = {};
  /// Instead of attention_norm for the rows behind those of all texts, where there are such.
  ops::LayerNorm global_norm = {};
  /// Rate for the results of both sub-layers.
  double attention_dropout = 0, feed_forward_dropout = 0;
  /// Rate for the wide rows of the feed-forward block.
  double activation_dropout = 0;
  /// See layer_place.
  std::uint64_t place = 0;
};

/// a = LayerNorm(dropout(dense(attention(x))) + x); LayerNorm(dropout(down(dropout(up(a)))) + a).
std::unique_ptr<Block> post_norm_block(BlockParts parts);

/// a = x + dropout(dense(attention(LayerNorm(x)))); a + dropout(down(dropout(up(LayerNorm(a))))).
/// Without a weight the first norm is the identity. With norms of the results:
/// a = x + norm(dense(attention(LayerNorm(x)))); a + norm(down(up(LayerNorm(a)))), without dropout.
std::unique_ptr<Block> pre_norm_block(BlockParts parts);

}  // namespace longformer::models
