// From the label scores of tokens to entities, as the token-classification pipeline of
// `transformers` groups them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/reading/segments.h"
#include "longformer/options.h"
#include "longformer/text.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// The tokens of a document with their logits. C labels.
struct TaggedTokens {
  /// [tokens, C]
  std::span<const float> logits;
  std::span<const std::string> labels;
  /// Per token, 1 when it belongs to the word of the token before it; see continues_word.
  std::span<const std::uint8_t> continues_word;
};

/// A run of tokens with one label, and the probability of the label.
struct TokenEntity {
  std::string label;
  float score = 0;
  TokenRange tokens;
};

/// Entities of all labels, in order; every token is in one.
std::vector<TokenEntity> group_entities(const TaggedTokens& tokens, Aggregation aggregation);

/// Which tokens continue a word, by the rules of the pipeline: of a WordPiece tokenizer those whose
/// entry is not as long as what it stands for ("##ing"); of others those that no space stands in
/// front of. An unknown token is a word.
std::vector<std::uint8_t> continues_word(const Tokenizer& tokenizer, const Encoding& tokens,
                                         std::string_view text);

}  // namespace longformer::tasks
