// Questions whose candidates are read together, in one pass over what they are about: the form of
// the paper for WikiHop (docs/spec/tasks.md#c4-candidates).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/reading/reading.h"
#include "engine/reading/token_parts.h"
#include "longformer/document.h"
#include "longformer/text.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// Special tokens around the question and around every candidate.
inline const std::array<std::string, 4> kCandidateMarks = {"[question]", "[/question]", "[ent]",
                                                           "[/ent]"};

/// A question as tokens, without special ones.
struct CandidateTokens {
  std::vector<std::int32_t> question;
  std::vector<std::vector<std::int32_t>> candidates, supports;
};

/// `<s> [question] … [/question] [ent] … [/ent] … [ent] … [/ent] </s> support </s> </s> support
/// </s> …`
class CandidateReader {
 public:
  /// The tokenizer must outlive the reader. Throws Error when it lacks one of the marks, a first
  /// token or a separator.
  CandidateReader(const Tokenizer& tokenizer, ReadingOptions options);

  /// Texts are joined as the authors' script does it: no space before punctuation, one before the
  /// text. Throws Error for a question without candidates or with marks in its texts.
  CandidateTokens tokens(const ChoiceQuestion& question) const;

  /// Rows with as much of the supports as there is room for, which overlap by `stride` tokens (the
  /// authors' script: 0) or, truncated, one row with the first of them. Every row repeats what
  /// stands before the first support: the first token, question and candidates, which is what
  /// global_positions is given as sequence 0; 1 are the supports; separators are special. Throws
  /// Error as rows_of does.
  Reading read(const CandidateTokens& tokens) const;

 private:
  std::vector<std::int32_t> encode(const std::string& text) const;
  Encoding question_part(const CandidateTokens& tokens, std::vector<std::int64_t>& places) const;
  Encoding support_part(const CandidateTokens& tokens) const;

  const Tokenizer& tokenizer_;
  RowReader rows_;
  std::array<std::int32_t, 4> marks_;
  RowEnds ends_;
};

/// Part of such a row before the supports, to which a Longformer attends globally.
std::vector<std::int64_t> of_candidate_part(const Encoding& row);

/// The question with candidates and supports in another order, which depends on the seed alone, and
/// where the right candidate has gone.
struct ShuffledCandidates {
  CandidateTokens tokens;
  std::int32_t label = 0;
};
ShuffledCandidates shuffled(const CandidateTokens& tokens, std::int32_t label, std::uint64_t seed);

}  // namespace longformer::tasks
