#include "models/attention/attention.h"

#include <array>

#include "core/error.h"

namespace longformer::models {

LayerSource layer_source(const EncoderConfig& config, const Weights& weights, DType dtype) {
  return {.weights = weights,
          .dtype = dtype,
          .initializer_range = config.initializer_range,
          .layer_norm_eps = config.layer_norm_eps,
          .norm_bias = config.recipe.norm_bias,
          .centres_norms = config.recipe.centres_norms};
}

std::string self_attention_name(Index layer) {
  return fmt::format("encoder.layer.{}.attention.self.", layer);
}

ops::Linear query_key_value(const EncoderConfig& config, Index layer, const LayerSource& source) {
  const std::string name = self_attention_name(layer);
  const bool has_bias = config.recipe.attention_bias;
  if (config.recipe.packs_projections) {
    return linear(source, name + "query_key_value", {3 * config.hidden_size, config.hidden_size},
                  {.has_bias = has_bias});
  }
  const std::array names = {name + "query", name + "key", name + "value"};
  return stacked_linear(source, names, {config.hidden_size, config.hidden_size}, has_bias);
}

}  // namespace longformer::models
