// From start and end logits of tokens to the best spans of a document.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/reading/segments.h"
#include "longformer/text.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// Logits of a model for one segment of a document.
struct SegmentLogits {
  /// Tokens of the document.
  TokenRange range;
  /// [range.size()] each.
  std::span<const float> start, end;
  /// Logit of the first token of the input, which stands for "no answer".
  float no_answer_start = 0, no_answer_end = 0;
};

struct AnswerRules {
  Index top_k = 1;
  /// Longest answer, before it is widened to whole words. Segments overlap by at least as much.
  Index max_tokens = 30;
};

struct AnswerSpan {
  TokenRange tokens;
  float score = 0;
  float logit = 0;
};

struct Answers {
  /// Best first; they do not overlap.
  std::vector<AnswerSpan> spans;
  /// Score of no answer; its tokens are empty.
  AnswerSpan none;
};

/// The best spans, each scored in the segment that owns its middle token and then widened to whole
/// words. `inside_word` holds 1 for each token that begins inside a word. With one segment a score
/// is that of the question-answering pipeline of `transformers`: the softmax goes over the tokens
/// of the document and the first token of the input. With several it goes over all tokens of the
/// document, each from its own segment, and the no-answer token of the segment where that is least.
Answers best_answers(std::span<const SegmentLogits> segments,
                     std::span<const std::uint8_t> inside_word, const AnswerRules& rules);

/// The span of at most `max_tokens` tokens with the largest logit, each scored by every row that
/// holds it whole; of equals the earlier and then the shorter one. Widened to whole words.
std::optional<AnswerSpan> best_of_rows(std::span<const SegmentLogits> rows,
                                       std::span<const std::uint8_t> inside_word, Index max_tokens);

/// Which tokens begin inside a word: between two letters, digits or underscores.
std::vector<std::uint8_t> begins_inside_word(std::string_view text,
                                             std::span<const CharacterSpan> offsets);

/// The tokens of an answer, when it lies whole in the tokens of the range. `offsets` are the
/// characters of all tokens of the text.
std::optional<TokenRange> answer_tokens(std::span<const CharacterSpan> offsets, TokenRange range,
                                        CharacterSpan answer);

}  // namespace longformer::tasks
