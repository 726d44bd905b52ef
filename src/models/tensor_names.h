// Names and shapes of the tensors of the encoders, as `transformers` writes them (spec.md A.2).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "models/config.h"

namespace longformer::models {

struct NamedShape {
  std::string name;
  Shape shape;
};

inline constexpr const char* kWordEmbeddings = "embeddings.word_embeddings.weight";
inline constexpr const char* kPositionEmbeddings = "embeddings.position_embeddings.weight";

/// Whether a tensor belongs to the embeddings or layers, rather than to the pooler or a head.
bool is_of_encoder(const std::string& name);

/// The projection of all tokens that a projection of global tokens is a copy of after conversion;
/// empty for other tensors.
std::string local_projection(const std::string& name);

/// What the encoder needs, in the order of the model; names without a prefix.
std::vector<NamedShape> encoder_tensors(const EncoderConfig& config);

/// The pooler over the first token, which a folder may have.
std::vector<NamedShape> pooler_tensors(const EncoderConfig& config);

/// Parts of the masked-LM head; `.weight` and `.bias` follow.
struct MaskedLmNames {
  std::string dense, norm, decoder;
  /// The bias that is added to the logits, in order of preference: `transformers` adds the
  /// decoder's own, which is tied to the other only when the embeddings are tied.
  std::array<std::string, 2> bias;
};
MaskedLmNames masked_lm_names(ModelType type);

/// The tensors of a masked-LM head whose decoder is tied to the word embeddings.
std::vector<NamedShape> masked_lm_tensors(const EncoderConfig& config);

}  // namespace longformer::models
