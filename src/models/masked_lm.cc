#include "models/masked_lm.h"

#include <string>

#include "models/encoder.h"
#include "models/registry.h"

namespace longformer::models {
namespace {

ops::Linear decoder(const EncoderConfig& config, const LayerSource& source) {
  const MaskedLmNames& names = *config.traits().masked_lm;
  const Weights& weights = source.weights;
  const std::string own = std::string(names.decoder) + ".weight";
  // transformers keeps a decoder that the file has, even where the configuration ties it; in a
  // training both are one where they are alike.
  const bool tied =
      config.tie_word_embeddings && (!weights.has(own) || weights.tie(own, kWordEmbeddings));
  const std::string first(names.bias[0]), second(names.bias[1]);
  if (first != second && weights.has(first) && weights.has(second)) weights.tie(second, first);
  return linear(source, tied ? kWordEmbeddingLayer : std::string(names.decoder),
                {config.vocab_size, config.embedding_size},
                {.bias_name = weights.has(first) ? first : second});
}

}  // namespace

bool MaskedLmHead::present(const EncoderConfig& config, const Weights& weights) {
  const auto& names = config.traits().masked_lm;
  return names && weights.has(std::string(names->dense) + ".weight");
}

MaskedLmHead::MaskedLmHead(const EncoderConfig& config, const Weights& weights, DType dtype)
    : MaskedLmHead(config, layer_source(config, weights, dtype)) {}

MaskedLmHead::MaskedLmHead(const EncoderConfig& config, const LayerSource& source)
    : dense_(linear(
          source, std::string(config.traits().masked_lm->dense),
          {config.embedding_size, config.hidden_size},
          {.activation = config.traits().masked_lm->activation.value_or(config.activation)})),
      norm_(
          layer_norm(source, std::string(config.traits().masked_lm->norm), config.embedding_size)),
      decoder_(decoder(config, source)) {}

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
