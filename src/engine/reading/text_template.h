// Special tokens that the tokenizer puts around a text, kept apart so that every segment of a long
// text gets it.
#pragma once

#include <string_view>

#include "engine/reading/segments.h"
#include "longformer/text.h"

namespace longformer::engine {

class TextTemplate {
 public:
  /// The template of a text alone.
  explicit TextTemplate(const Tokenizer& tokenizer);
  /// Template of a text after a question that every segment repeats. Offsets of the question's
  /// tokens are characters of the question. The first `max_question_tokens` tokens stay; 0: all.
  TextTemplate(const Tokenizer& tokenizer, std::string_view question,
               Index max_question_tokens = 0);

  /// Tokens before and behind the text.
  Index prefix() const { return prefix_; }
  Index size() const { return prefix_ + suffix_; }
  /// Tokens of the question that are left out.
  Index cut_question_tokens() const { return cut_; }

  /// A segment of the tokens of a text that was encoded without special tokens, as the model reads
  /// it: with everything that stands around it.
  Encoding around(const Encoding& text, TokenRange segment) const;

 private:
  TextTemplate(Encoding whole, std::int8_t sequence, Index most_before = 0);

  /// The template around some short text.
  Encoding whole_;
  std::int8_t sequence_;
  Index cut_, prefix_ = 0, suffix_ = 0;
};

}  // namespace longformer::engine
