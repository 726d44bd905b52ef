#include "models/self_attention.h"

#include <array>

#include "core/error.h"

namespace longformer::models {

std::string self_attention_name(Index layer) {
  return fmt::format("encoder.layer.{}.attention.self.", layer);
}

ops::Linear query_key_value(const EncoderConfig& config, Index layer, const Checkpoint& weights,
                            DType dtype) {
  const Index width = config.hidden_size;
  std::array<Tensor, 3> matrices, biases;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string name = self_attention_name(layer) + std::array{"query", "key", "value"}[i];
    matrices[i] = weights.get(name + ".weight", {width, width});
    biases[i] = weights.get(name + ".bias", {width});
  }
  ops::Linear dense(matrices, biases, {.dtype = dtype, .trainable = weights.is_trainable()});
  for (const Tensor& matrix : matrices) weights.release(matrix);
  return dense;
}

kernels::AttentionPattern window_pattern(const EncoderConfig& config, Index reach) {
  kernels::AttentionPattern pattern;
  pattern.head_size = config.head_size();
  pattern.heads.assign(static_cast<std::size_t>(config.heads), {reach, reach, 1});
  return pattern;
}

}  // namespace longformer::models
