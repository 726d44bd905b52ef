#include "models/masked_lm.h"

#include <array>
#include <string>

#include "models/encoder.h"
#include "models/tensor_names.h"

namespace longformer::models {
namespace {

ops::Linear decoder(const EncoderConfig& config, const Checkpoint& weights, DType dtype) {
  const MaskedLmNames names = masked_lm_names(config.model_type);
  const std::string untied = names.decoder + ".weight";
  // transformers keeps a decoder that the file has, even where the configuration ties it; trained
  // are they one where they are alike.
  const bool tied =
      config.tie_word_embeddings && (!weights.has(untied) || weights.tie(untied, kWordEmbeddings));
  const std::array matrix = {
      weights.get(tied ? kWordEmbeddings : untied, {config.vocab_size, config.hidden_size})};
  const std::string& bias_name = weights.has(names.bias[0]) ? names.bias[0] : names.bias[1];
  if (weights.has(names.bias[0]) && weights.has(names.bias[1])) {
    weights.tie(names.bias[1], names.bias[0]);
  }
  const std::array bias = {weights.get(bias_name, {config.vocab_size})};
  return {matrix, bias, {.dtype = dtype, .trainable = weights.is_trainable()}};
}

/// The heads of Longformer and RoBERTa use GELU whatever the configuration says.
Activation head_activation(const EncoderConfig& config) {
  return config.model_type == ModelType::bert ? config.activation : Activation::gelu;
}

}  // namespace

bool MaskedLmHead::present(const EncoderConfig& config, const Checkpoint& weights) {
  return weights.has(masked_lm_names(config.model_type).dense + ".weight");
}

MaskedLmHead::MaskedLmHead(const EncoderConfig& config, const Checkpoint& weights, DType dtype)
    : dense_(linear(weights, masked_lm_names(config.model_type).dense,
                    {config.hidden_size, config.hidden_size}, dtype, head_activation(config))),
      norm_(layer_norm(config, weights, masked_lm_names(config.model_type).norm)),
      decoder_(decoder(config, weights, dtype)) {}

Tensor MaskedLmHead::transform(const ops::Context& context, const Tensor& hidden) const {
  const Tensor transformed = ops::linear(context, hidden, dense_, context.dtype);
  return ops::layer_norm(context, transformed, norm_);
}

Tensor MaskedLmHead::forward(const ops::Context& context, const Tensor& hidden) const {
  return ops::linear(context, transform(context, hidden), decoder_, DType::f32);
}

ops::LossSum MaskedLmHead::loss(const ops::Context& context, const Tensor& hidden,
                                std::span<const std::int32_t> labels,
                                const ops::LossOptions& options) const {
  return ops::linear_cross_entropy(context, transform(context, hidden), decoder_, labels, options);
}

}  // namespace longformer::models
