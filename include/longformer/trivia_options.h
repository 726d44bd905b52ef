// How data are read and learned that say what an answer is and not where it stands (TriviaQA).
#pragma once

#include <cstdint>
#include <string>

namespace longformer {

/// Where a text is taken to have one of the known answers.
enum class AnswerMatching {
  /// A run of words of the text that are the words of an answer, both normalised as TriviaQA's
  /// evaluation does it, so that exactly what the metric would call right is found, and never a
  /// part of a word.
  words,
  /// The authors' way: the answer as it is, without regard to case, anywhere, also inside words.
  substring,
};

/// What is learned of several right spans of a document.
enum class AnswerLoss {
  /// −log of the probability of all of them together ("OR loss"), over all rows of the document.
  any,
  /// Cross-entropy with the first one of the text.
  first,
};

struct TriviaOptions {
  /// Folder of the documents, with "wikipedia" and "web" in it; empty: ../evidence of the file.
  std::string evidence = {};
  AnswerMatching matching = AnswerMatching::words;
  AnswerLoss loss = AnswerLoss::any;
  /// What is read of a question, in tokens.
  std::int64_t max_question_tokens = 55;
};

}  // namespace longformer
