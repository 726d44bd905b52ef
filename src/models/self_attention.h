// The one part in which the encoders differ: who attends to whom.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "models/batch.h"
#include "models/checkpoint.h"
#include "models/config.h"
#include "ops/attention_probabilities.h"
#include "ops/context.h"
#include "ops/linear.h"

namespace longformer::models {

/// Numbers of the places where a model drops (ops::Context::dropout).
inline constexpr std::uint64_t kEmbeddingPlace = 0;
inline constexpr std::uint64_t kHeadPlace = 1;
inline constexpr std::uint64_t kHeadDensePlace = 2;
struct DropoutPlaces {
  std::uint64_t attention = 0;
  std::uint64_t attention_output = 0;
  std::uint64_t output = 0;
};
constexpr DropoutPlaces dropout_places(Index layer) {
  const std::uint64_t first = 4 * (static_cast<std::uint64_t>(layer) + 1);
  return {first, first + 1, first + 2};
}

/// Looks at the probabilities of some heads of a layer while it runs.
struct HeadObserver {
  std::span<const Index> heads;
  std::function<void(const ops::HeadProbabilities&)> observe;
};

/// Self-attention of one layer, up to and without its output projection.
class SelfAttention {
 public:
  virtual ~SelfAttention() = default;
  /// x [n, D] to [n, D]. The rows are those of the pass; the observer may be null.
  virtual Tensor forward(const ops::Context& context, const Tensor& x, const SharedRows& rows,
                         const HeadObserver* observer) const = 0;
};

/// Window and global tokens with projections of their own (Longformer paper §3.1, spec.md A.4).
std::unique_ptr<SelfAttention> longformer_attention(const EncoderConfig& config, Index layer,
                                                    const Checkpoint& weights, DType dtype);

/// Every token attends to every token (BERT, RoBERTa).
std::unique_ptr<SelfAttention> dense_attention(const EncoderConfig& config, Index layer,
                                               const Checkpoint& weights, DType dtype);

/// Names of the weights of a layer: "encoder.layer.3.attention.self.".
std::string self_attention_name(Index layer);

/// The stacked query, key and value projections of a layer.
ops::Linear query_key_value(const EncoderConfig& config, Index layer, const Checkpoint& weights,
                            DType dtype);

/// All heads see `reach` tokens to each side.
kernels::AttentionPattern window_pattern(const EncoderConfig& config, Index reach);

}  // namespace longformer::models
