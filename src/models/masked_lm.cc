#include "models/masked_lm.h"

#include <array>
#include <string>

#include "models/encoder.h"

namespace longformer::models {
namespace {

/// Where the parts of the head are called differently.
struct HeadNames {
  std::string dense, norm, decoder;
  /// The bias of the decoder, in order of preference: transformers adds the decoder's own, which
  /// is tied to the other only when the embeddings are tied.
  std::array<std::string, 2> bias;
};

HeadNames names_of(const EncoderConfig& config) {
  if (config.model_type == ModelType::bert) {
    return {.dense = "cls.predictions.transform.dense",
            .norm = "cls.predictions.transform.LayerNorm",
            .decoder = "cls.predictions.decoder",
            .bias = {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
  }
  return {.dense = "lm_head.dense",
          .norm = "lm_head.layer_norm",
          .decoder = "lm_head.decoder",
          .bias = {"lm_head.decoder.bias", "lm_head.bias"}};
}

ops::PackedLinear decoder(const EncoderConfig& config, const Checkpoint& weights, DType dtype) {
  const HeadNames names = names_of(config);
  const std::string untied = names.decoder + ".weight";
  const bool tied = config.tie_word_embeddings || !weights.has(untied);
  const std::array matrix = {weights.get(tied ? "embeddings.word_embeddings.weight" : untied,
                                         {config.vocab_size, config.hidden_size})};
  const std::string& bias_name = weights.has(names.bias[0]) ? names.bias[0] : names.bias[1];
  const std::array bias = {weights.get(bias_name, {config.vocab_size})};
  return {matrix, bias, dtype};
}

/// The heads of Longformer and RoBERTa use GELU whatever the configuration says.
Activation head_activation(const EncoderConfig& config) {
  return config.model_type == ModelType::bert ? config.activation : Activation::gelu;
}

}  // namespace

bool MaskedLmHead::present(const EncoderConfig& config, const Checkpoint& weights) {
  return weights.has(names_of(config).dense + ".weight");
}

MaskedLmHead::MaskedLmHead(const EncoderConfig& config, const Checkpoint& weights, DType dtype)
    : dense_(packed_linear(weights, names_of(config).dense,
                           {config.hidden_size, config.hidden_size}, dtype,
                           head_activation(config))),
      norm_(layer_norm(config, weights, names_of(config).norm)),
      decoder_(decoder(config, weights, dtype)) {}

Tensor MaskedLmHead::forward(const ops::Context& context, const Tensor& hidden) const {
  const Tensor transformed = ops::linear(context, hidden, dense_, context.dtype);
  return ops::linear(context, ops::layer_norm(context, transformed, norm_), decoder_, DType::f32);
}

}  // namespace longformer::models
