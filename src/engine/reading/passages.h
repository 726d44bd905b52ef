// Cutting a text into passages that end where a reader would stop.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/reading/segments.h"
#include "longformer/text.h"

namespace longformer::engine {

struct PassageRules {
  /// Tokens of a passage: at most this, and rarely less than two thirds of it.
  Index tokens = 128;
  /// Each passage starts in the middle of the one before it.
  bool overlapping = false;
};

/// Passages over all tokens, in order. Each ends after a paragraph, else a sentence, else a word,
/// when the last third of its tokens has such a place. `offsets` are the characters of the tokens
/// (without special tokens). Throws Error unless tokens ≥ 1.
std::vector<TokenRange> cut_passages(std::string_view text, std::span<const CharacterSpan> offsets,
                                     const PassageRules& rules);

/// The tokens with which a word or a mark begins, the first token among them, in order.
std::vector<Index> word_starts(std::string_view text, std::span<const CharacterSpan> offsets);

/// The tokens with which a sentence begins, the first token among them, in order.
std::vector<Index> sentence_starts(std::string_view text, std::span<const CharacterSpan> offsets);

}  // namespace longformer::engine
