#include "models/attention/attention.h"

#include <array>

#include "core/error.h"

namespace longformer::models {

LayerSource layer_source(const EncoderConfig& config, const Weights& weights, DType dtype) {
  return {.weights = weights,
          .dtype = dtype,
          .initializer_range = config.initializer_range,
          .layer_norm_eps = config.layer_norm_eps};
}

std::string self_attention_name(Index layer) {
  return fmt::format("encoder.layer.{}.attention.self.", layer);
}

ops::Linear query_key_value(const EncoderConfig& config, Index layer, const LayerSource& source) {
  const std::string name = self_attention_name(layer);
  const std::array names = {name + "query", name + "key", name + "value"};
  return stacked_linear(source, names, {config.hidden_size, config.hidden_size});
}

}  // namespace longformer::models
