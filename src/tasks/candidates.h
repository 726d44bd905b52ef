// Questions whose candidates are read together, in one pass over what they are about: the form of
// the paper for WikiHop (spec.md C.4).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "longformer/choice.h"
#include "longformer/embedding.h"
#include "longformer/tokenizer.h"

namespace longformer::tasks {

/// Special tokens around the question and around every candidate.
inline const std::array<std::string, 4> kCandidateMarks = {"[question]", "[/question]", "[ent]",
                                                           "[/ent]"};

/// A question as tokens, without special ones.
struct CandidateTokens {
  std::vector<std::int32_t> question;
  std::vector<std::vector<std::int32_t>> candidates, supports;
};

/// What the model reads. Sequence 0 is all that stands before the first support: the first token,
/// question and candidates, which every row repeats and which has global attention; 1 are the
/// supports; separators are special.
struct CandidateRows {
  std::vector<Encoding> rows;
  /// Where the candidates stand in every row: the tokens [ent].
  std::vector<std::int64_t> places;
  /// Of the whole question with special tokens, before truncation; and what was cut off.
  std::int64_t tokens = 0, truncated = 0;
};

struct CandidateOptions {
  /// Longest row, with special tokens.
  std::int64_t max_tokens = 0;
  /// truncate: keep the first tokens of the supports. split: rows with as much of them as there is
  /// room for, which overlap by `stride` tokens (the authors' script: 0).
  TooLong too_long = TooLong::refuse;
  std::int64_t stride = 0;
};

/// `<s> [question] … [/question] [ent] … [/ent] … [ent] … [/ent] </s> support </s> </s> support
/// </s> …`
class CandidateReader {
 public:
  /// The tokenizer must outlive the reader. Throws Error when it lacks one of the marks, a first
  /// token or a separator.
  CandidateReader(const Tokenizer& tokenizer, const CandidateOptions& options);

  /// Texts are joined as the authors' script does it: no space before punctuation, one before the
  /// text. Throws Error for a question without candidates or with marks in its texts.
  CandidateTokens tokens(const ChoiceQuestion& question) const;

  /// Throws Error for rows that are too long (TooLong::refuse), and when question and candidates
  /// leave no room.
  CandidateRows rows(const CandidateTokens& tokens) const;

 private:
  std::vector<std::int32_t> encode(const std::string& text) const;
  Encoding question_part(const CandidateTokens& tokens, std::vector<std::int64_t>& places) const;
  Encoding support_part(const CandidateTokens& tokens) const;

  const Tokenizer& tokenizer_;
  CandidateOptions options_;
  std::array<std::int32_t, 4> marks_ = {};
  std::int32_t first_ = 0, separator_ = 0;
};

/// What stands before the supports in such a row: what a Longformer attends to globally.
std::vector<std::int64_t> of_candidate_part(const Encoding& row);

/// Throws Error for a rule of global attention that needs text, which such rows do not have.
void check_candidate_rule(const std::string& rule);

/// The question with candidates and supports in another order, which depends on the seed alone, and
/// where the right candidate has gone.
struct ShuffledCandidates {
  CandidateTokens tokens;
  std::int32_t label = 0;
};
ShuffledCandidates shuffled(const CandidateTokens& tokens, std::int32_t label, std::uint64_t seed);

}  // namespace longformer::tasks
