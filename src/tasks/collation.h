// From examples of a data set to rows of tokens with what the model shall say of them (spec.md A.6,
// C.4, J).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "longformer/embedding.h"
#include "longformer/tokenizer.h"
#include "tasks/candidates.h"
#include "tasks/choice_data.h"
#include "tasks/classification_data.h"
#include "tasks/question_data.h"
#include "tasks/segments.h"
#include "tasks/tagging_data.h"
#include "tasks/text_template.h"

namespace longformer::tasks {

/// A token that no loss looks at.
constexpr std::int32_t kIgnoredLabel = -100;

/// A row of tokens as a model reads it. n tokens.
struct TokenRow {
  /// [n]
  std::vector<std::int32_t> ids, types;
  /// Tokens with global attention, ascending.
  std::vector<Index> global_positions;
};

/// What goes through a model together, and the targets of its task; those of others are empty.
struct Example {
  /// One row; of multiple choice one per choice; of candidate scoring one per part of the supports.
  std::vector<TokenRow> rows;
  /// Single-label: the class. Multiple choice and candidates: the index of the right one. Else
  /// kIgnoredLabel.
  std::int32_t label = kIgnoredLabel;
  /// Multi-label: [C] of 0 and 1. Regression: [C].
  std::vector<float> values;
  /// Token classification: [n] classes, kIgnoredLabel for tokens that have none.
  std::vector<std::int32_t> token_labels;
  /// Question answering: positions at which an answer of the row starts and ends (its last token),
  /// each once, ascending. A row without an answer has {0} and {0}, the first token, as SQuAD 2 has
  /// it; the loss over several answers leaves such rows out unless the data has unanswerable
  /// questions.
  std::vector<Index> starts, ends;
  bool has_answer = false;
  /// Candidate scoring: where the candidates stand in every row.
  std::vector<Index> places;
};

struct CollationOptions {
  /// Longest row, with special tokens.
  Index max_tokens = 0;
  /// truncate: keep the first tokens. split: rows that overlap by at least `stride` tokens, each an
  /// example of its own; a word is labelled in the row in which it has most context, a class is
  /// that of every row, an answer counts in every row that holds it whole. Multiple choice never
  /// splits.
  TooLong too_long = TooLong::truncate;
  Index stride = 128;
  /// Label every token of a word, rather than its first one alone.
  bool label_all_pieces = false;
  /// The positions with global attention of a row; none when null. The text is what the offsets of
  /// the tokens refer to; of a pair, the second one.
  std::function<std::vector<Index>(const Encoding&, std::string_view text)> global_positions = {};
};

/// What became of documents that are longer than a row, so that nothing is lost unnoticed.
struct CollationReport {
  std::int64_t documents = 0;
  /// Of the documents with special tokens, before truncation.
  std::int64_t tokens = 0;
  std::int64_t truncated_documents = 0, truncated_tokens = 0;
  /// Rows of all documents; of multiple choice, of all choices.
  std::int64_t rows = 0;
  /// Words that have a label and no token in any row.
  std::int64_t unread_words = 0;
  /// Questions with answers, none of which is whole in any row.
  std::int64_t unreached_answers = 0;
};

class Collator {
 public:
  /// The tokenizer must outlive the collator. Throws Error for options that leave no room.
  Collator(const Tokenizer& tokenizer, CollationOptions options);

  /// The rows of one example. Throws Error with TooLong::refuse for one that is too long, and for a
  /// question that leaves no room for its document.
  std::vector<Example> collate(const ClassificationExample& example);
  std::vector<Example> collate(const TaggingExample& example);
  std::vector<Example> collate(const QuestionExample& example);
  std::vector<Example> collate(const ChoiceExample& example);
  /// Candidates that are read together.
  Example collate(const CandidateRows& rows, std::int32_t label);

  /// Of everything collated since construction.
  const CollationReport& report() const { return report_; }

 private:
  struct Rows;
  Rows rows_of(const Encoding& tokens, std::string_view text, const TextTemplate& around);
  TokenRow row_of(const Encoding& tokens, std::string_view text);
  void count_truncated(Index tokens, Index truncated);

  const Tokenizer& tokenizer_;
  CollationOptions options_;
  CollationReport report_;
};

/// Words as tokens, without special ones.
struct WordTokens {
  /// The words with a space between.
  std::string text;
  /// Offsets are characters of `text`.
  Encoding tokens;
  /// The word of each token.
  std::vector<Index> words;
};

/// Tokens of words that are given apart, as `transformers` makes them of is_split_into_words: a
/// byte-level tokenizer reads each behind a space.
WordTokens encode_words(const Tokenizer& tokenizer, std::span<const std::string> words);

/// The two texts that are read for one choice of a question; see ChoiceQuestion.
std::pair<std::string, std::string> choice_texts(const ChoiceQuestion& question,
                                                 const std::string& choice);

/// From the first token of the second text of a pair to the end: what a multiple-choice Longformer
/// attends to globally. Empty when the second text has no tokens.
std::vector<Index> from_second_text(const Encoding& pair);

}  // namespace longformer::tasks
