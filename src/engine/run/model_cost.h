// The cost of running and training a model (docs/spec/performance.md#p1).
#pragma once

#include <cstdint>

#include "models/config.h"
#include "models/language_model.h"

namespace longformer {

/// Useful FLOPs of a forward pass of the encoder over one document of n tokens: linears, and the
/// exact query–key pairs.
double model_flops(const models::EncoderConfig& config, std::int64_t n, std::int64_t globals);

/// Useful FLOPs of the masked-LM head for so many tokens.
double masked_lm_flops(const models::EncoderConfig& config, double tokens);

/// Useful FLOPs of the decoder and its output over a text of m tokens about a document of n.
double decoder_flops(const models::EncoderConfig& config, std::int64_t n, std::int64_t m);

struct TrainingShape {
  /// Tokens of a micro-batch, and those of its texts for a model that writes some.
  std::int64_t tokens = 0, text_tokens = 0;
  DType dtype = DType::f32;
  bool recomputes = false;
  bool masked_lm = false;
};

/// Most bytes that the activations, their gradients and copies of weights take during a step.
std::int64_t activation_bytes(const models::EncoderConfig& config, const TrainingShape& shape);

/// Floating-point operations of a language model: a segment of n characters with its decoder, and
/// segments of `length`.
double language_model_flops(const models::LanguageModelConfig& config, std::int64_t n);
/// A training step over such a segment does three times that, but for what is constant in it.
double language_model_training_flops(const models::LanguageModelConfig& config, std::int64_t n);
std::int64_t activation_bytes(const models::LanguageModelConfig& config, std::int64_t length,
                              const TrainingShape& shape);
/// Bytes that a text keeps in fp32 while it is read or written.
std::int64_t state_bytes(const models::LanguageModelConfig& config);

}  // namespace longformer
