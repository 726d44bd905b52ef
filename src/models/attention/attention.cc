#include "models/attention/attention.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "ops/value_probes.h"

namespace longformer::models {

LayerSource layer_source(const EncoderConfig& config, const Weights& weights, DType dtype) {
  return {.weights = weights,
          .dtype = dtype,
          .initial = config.recipe.initial,
          .layer_norm_eps = config.layer_norm_eps,
          .norm_bias = config.recipe.norm_bias,
          .centres_norms = config.recipe.centres_norms,
          .gain_offset = config.recipe.gain_offset};
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

std::vector<ops::Linear> projections(const EncoderConfig& config, Index layer,
                                     const LayerSource& source) {
  const bool is_plain =
      config.key_heads() == config.heads && config.query_width() == config.hidden_size;
  std::vector<ops::Linear> layers;
  if (is_plain) {
    layers.push_back(query_key_value(config, layer, source));
    return layers;
  }
  const std::string name = self_attention_name(layer);
  const bool has_bias = config.recipe.attention_bias;
  const std::array keys_and_values = {name + "key", name + "value"};
  layers.push_back(linear(source, name + "query", {config.query_width(), config.hidden_size},
                          {.has_bias = has_bias}));
  layers.push_back(
      stacked_linear(source, keys_and_values, {config.key_width(), config.hidden_size}, has_bias));
  return layers;
}

void observe_by_values(const ops::Context& context, const Attention& attention, const Tensor& x,
                       const LayerInput& in, HeadSizes sizes) {
  require(in.state == nullptr && in.shared.starts.size() == 2 && context.tape == nullptr,
          "attention: expected one text from its beginning to look at, found {}",
          in.state == nullptr ? "several or a training" : "one that goes on");
  const auto attend = [&](const Tensor& values) {
    const LayerInput probe = {.shared = in.shared, .values = &values};
    return attention.forward(context, x, probe);
  };
  ops::probabilities_by_values(
      context, {.heads = sizes.heads, .head_size = sizes.size, .rows = x.rows()},
      in.observer->heads, attend, [&](Index head, Tensor probabilities) {
        in.observer->observe({.which = {0, head}, .local = std::move(probabilities), .global = {}});
      });
}

void observe(const ops::Context& context, const LayerInput& in,
             const kernels::AttentionPattern& pattern, std::span<const Tensor> projected,
             const ObservedHeads& seen) {
  std::vector<Index> wanted;
  for (const Index head : in.observer->heads) {
    if (std::ranges::count(seen.heads, head) > 0) wanted.push_back(head);
  }
  ops::attention_probabilities(
      context, {pattern, in.shared.rows_without_globals},
      {.query = projected[0], .key = projected[1], .score_term = seen.term_of}, wanted,
      in.observer->observe);
}

}  // namespace longformer::models
