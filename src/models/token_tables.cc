#include "models/token_tables.h"

#include "models/encoder.h"

namespace longformer::models {

std::string token_table(const EncoderConfig& config, const Weights& weights,
                        const std::string& own) {
  if (!config.decoder) return kWordEmbeddings;
  if (!config.tie_word_embeddings) return own;
  if (weights.has(own) && !weights.tie(own, kWordEmbeddings)) return own;
  for (const char* name : {kWordEmbeddings, kOutputTokens, kDecoderTokens, kEncoderTokens}) {
    if (weights.has(name)) return name;
  }
  return kWordEmbeddings;
}

}  // namespace longformer::models
