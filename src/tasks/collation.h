// From examples of a data set to rows of tokens with what the model shall say of them (spec.md A.6,
// C.4, J).
#pragma once

#include <cstdint>
#include <vector>

#include "longformer/tokenizer.h"
#include "tasks/choice_data.h"
#include "tasks/classification_data.h"
#include "tasks/question_data.h"
#include "tasks/reading.h"
#include "tasks/tagging_data.h"

namespace longformer::tasks {

/// A token that no loss looks at.
constexpr std::int32_t kIgnoredLabel = -100;

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

/// What became of documents that are longer than a row, so that nothing is lost unnoticed.
struct CollationReport {
  std::int64_t documents = 0;
  /// Tokens of the documents with special ones, before truncation.
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
  /// The rows of a document that TooLong::split cuts are examples of their own: a word is labelled
  /// in the row in which it has most context, a class is that of every row, an answer counts in
  /// every row that holds it whole. Multiple choice never splits. `label_all_pieces`: every token
  /// of a word has its label, rather than its first one alone. The tokenizer must outlive the
  /// collator. Throws Error for options that leave no room.
  Collator(const Tokenizer& tokenizer, ReadingOptions options, bool label_all_pieces = false);

  /// The rows of one example. Throws Error as RowReader does.
  std::vector<Example> collate(const ClassificationExample& example);
  std::vector<Example> collate(const TaggingExample& example);
  std::vector<Example> collate(const QuestionExample& example);
  std::vector<Example> collate(const ChoiceExample& example);
  /// Candidates that are read together.
  Example collate(Reading candidates, std::int32_t label);

  /// Sums over everything collated since construction.
  const CollationReport& report() const { return report_; }

 private:
  void count(const Reading& reading);
  /// One for each row, of which it takes the tokens.
  std::vector<Example> examples_of(Reading& reading);
  /// One of all rows.
  Example example_of(Reading reading, std::int32_t label);

  RowReader reader_;
  bool label_all_pieces_;
  CollationReport report_;
};

}  // namespace longformer::tasks
