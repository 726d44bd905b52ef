// Choosing the tokens of a document that have global attention (Longformer paper §3.1).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "longformer/model.h"
#include "longformer/tokenizer.h"

namespace longformer {

/// A rule such as "cls,every:64": terms separated by commas, and a token is global when any of them
/// says so. Positions count the tokens of the document, or of the segment when a long document is
/// read in segments, with special tokens, from 0; what lies behind the last token is left out.
///
///   none       no token                        | 17        the token at position 17
///   default    those of the model's head       | 3-8       positions 3 to 8, both included
///   all        every token                     | every:64  positions 0, 64, 128, …
///   cls        the first token                 | sentences the first token of each sentence
///   question   of a pair, everything before the separator behind the first text
class GlobalAttention {
 public:
  /// Throws Error that names the term that is none of the above.
  static GlobalAttention parse(std::string_view rule);

  /// 1 for global tokens, else 0: a DocumentInput::global_attention_mask. `text` is what the
  /// offsets of the tokens refer to; of a pair, the second text. Throws Error for a model without
  /// global attention and for `question` of a text that is no pair.
  std::vector<std::int32_t> mask(const Model& model, const Encoding& tokens,
                                 std::string_view text) const;

  /// The same for an encoder with a decoder, where `default` is no token, as in `transformers`.
  std::vector<std::int32_t> mask(const Encoding& tokens, std::string_view text) const;

  /// The rule as it was given.
  const std::string& rule() const { return rule_; }

 private:
  enum class Named { none, heads_default, all, cls, question, sentences };
  void parse_term(std::string_view term);

  std::string rule_;
  std::vector<Named> named_;
  /// First and last position.
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;
  std::vector<std::int64_t> steps_;
};

}  // namespace longformer
