// A text behind a prompt, and its passages: what vectors of texts are used and trained with.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/reading/passages.h"
#include "engine/reading/reading.h"
#include "engine/reading/segments.h"
#include "longformer/text.h"

namespace longformer::engine {

/// Prefix of every text, as the encoder reads it.
struct Prompt {
  std::string text;
  Index characters = 0;
  /// Rows at the beginning of a document that are not pooled.
  Index skipped_rows = 0;
};

/// `pooled` says whether its tokens are pooled with those of the text.
Prompt read_prompt(const Tokenizer& tokenizer, std::string text, bool pooled);

/// Tokens of a text behind a prompt, without special ones. Offsets count in the text; tokens of the
/// prompt have none.
Encoding encode_behind(const Tokenizer& tokenizer, const Prompt& prompt, std::string_view text);

/// Known tokens behind those of a prompt, without special ones and without places in a text. Blanks
/// at the end of a prompt belong to the word behind it, so they get no token.
Encoding ids_behind(const Tokenizer& tokenizer, const Prompt& prompt,
                    std::span<const std::int32_t> ids);

/// The passages of a text, as tokens of an encoding that a prompt may begin.
std::vector<TokenRange> passages_behind(const Prompt& prompt, std::string_view text,
                                        const Encoding& encoding, const PassageRules& rules);

/// The tokens that have characters of the span. Throws Error where there are none.
TokenRange tokens_with(CharacterSpan span, const Encoding& encoding);

/// Least overlap of the segments of a document whose passages are pooled, unless it is said.
inline constexpr Index kPassageOverlap = 512;

/// Part of a text between two characters; `starts` are the places of all characters
/// (character_starts).
std::string text_between(std::string_view text, std::span<const std::size_t> starts,
                         CharacterSpan span);

/// The overlap of segments in which each of these passages lies whole in some segment, two of them
/// in every overlap where there is room; `least` unless they need more. Throws Error for a passage
/// longer than half of what the model takes.
Index passage_overlap(const ReadingOptions& options, const Tokenizer& tokenizer,
                      std::span<const TokenRange> passages, Index least);

/// The characters of passages that are given as tokens: whole graphemes.
std::vector<CharacterSpan> spans_of(std::string_view text, const Encoding& encoding,
                                    std::span<const TokenRange> passages);

/// The characters of the passages of a text without a prompt.
std::vector<CharacterSpan> passage_spans(std::string_view text, const Encoding& encoding,
                                         const PassageRules& rules);

}  // namespace longformer::engine
