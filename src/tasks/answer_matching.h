// Where a text has one of the known answers to a question: right spans for data of distant
// supervision, which say what the answer is and not where it stands (TriviaQA, HotpotQA).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "longformer/tokenizer.h"

namespace longformer::tasks {

/// Lower case, "_", ASCII punctuation and ‘ ’ ´ ` as spaces, without the articles a, an and the,
/// words apart by one space: the normalisation of TriviaQA's evaluation, under which "Campbell-
/// Bannerman" is two words (normalized_answer, of SQuAD, makes it one).
std::string normalized_trivia_answer(std::string_view text);

enum class AnswerMatching {
  /// A run of words of the text that are the words of an answer, both normalised as above, so that
  /// exactly what the metric would call right is found, and never a part of a word.
  words,
  /// The authors' way: the answer as it is, without regard to case, anywhere, also inside words.
  substring,
};

/// Finds answers in texts. Texts are read once, however many answers there are.
class AnswerMatcher {
 public:
  explicit AnswerMatcher(std::span<const std::string> answers,
                         AnswerMatching matching = AnswerMatching::words);

  /// The characters of all matches, ascending; from the first character of the first word to the
  /// last of the last one.
  std::vector<CharacterSpan> find(std::string_view text) const;

 private:
  AnswerMatching matching_;
  std::vector<std::string> answers_;
};

}  // namespace longformer::tasks
