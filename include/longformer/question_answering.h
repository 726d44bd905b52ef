// Answers to questions about documents of any length, as spans of their text
// (docs/spec/encoder.md#a6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "longformer/error.h"
#include "longformer/global_attention.h"
#include "longformer/model.h"
#include "longformer/tokenizer.h"
#include "longformer/too_long.h"

namespace longformer {

struct Question {
  std::string question;
  /// The document that holds the answer.
  std::string text;
};

struct AnswerOptions {
  /// At most this many answers for a question; they do not overlap.
  std::int64_t top_k = 1;
  /// Longest answer.
  std::int64_t max_answer_tokens = 30;
  /// TooLong::split reads question and document in segments of the model's length, in which the
  /// parts of the document overlap by at least `stride` tokens; an answer is scored in the segment
  /// in which its middle has most context. The stride must be at least `max_answer_tokens`.
  TooLong too_long = TooLong::refuse;
  std::int64_t stride = 128;
  /// Absent: the question (Longformer).
  std::optional<GlobalAttention> global_attention;
  /// Documents of one forward pass together hold at most this many tokens (at least one segment).
  std::int64_t batch_tokens = 8192;
};

struct Answer {
  /// Probability of the first times that of the last token, over all tokens of the document and the
  /// one for "no answer".
  float score = 0;
  /// Logit of the first plus that of the last token.
  float logit = 0;
  /// Characters of the document, in whole words, and what stands there.
  CharacterSpan span;
  std::string text;
};

/// An answer in one of many documents.
struct DocumentAnswer {
  /// The number of the document, from 0.
  std::size_t document = 0;
  Answer answer;
};

/// The best of the answers to one question in many documents, as TriviaQA asks for them. They are
/// compared by logit, since a score is a share of its own document; of equals the one that was
/// added first comes first.
class BestAnswers {
 public:
  /// Keeps the best `most` ones. Throws Error unless there is at least 1.
  explicit BestAnswers(std::int64_t most = 1);

  /// The answers of a document.
  void add(std::size_t document, std::span<const Answer> answers);
  /// Best first.
  const std::vector<DocumentAnswer>& answers() const { return answers_; }

 private:
  std::size_t most_;
  std::vector<DocumentAnswer> answers_;
};

/// What became of one question: the reason when it cannot be asked, else its answers, best first.
struct AnswerOutcome {
  std::string error;
  std::vector<Answer> answers;
  /// That the document has no answer, as models learn it from SQuAD 2: score and logit of the span
  /// that is the first token, from the segment where they are lowest. Means nothing for other
  /// models.
  float no_answer_score = 0;
  float no_answer_logit = 0;
  /// Tokens of question and document with special ones, before truncation.
  std::int64_t tokens = 0;
  /// Tokens that TooLong::truncate cut off.
  std::int64_t truncated = 0;
  /// Segments that the document was read in.
  std::int64_t segments = 0;
  /// What would have helped; see Error.
  std::vector<Remedy> remedies = {};
};

/// {"score", "logit", "begin", "end", "text"}.
std::string to_json(const Answer& answer);
/// {"tokens", "truncated", "segments", "answers": […], "no_answer_score", "no_answer_logit"}.
std::string to_json(const AnswerOutcome& result);

/// A question-answering model with its tokenizer.
class QuestionAnswerer {
 public:
  /// Throws Error for a model without a question-answering head.
  QuestionAnswerer(Model model, Tokenizer tokenizer);
  /// Throws Error for a folder that cannot be loaded or has no question-answering head.
  static QuestionAnswerer load(const std::string& folder, const LoadOptions& options = {});

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// The next question, or nothing at the end. Called on a thread of its own, so that reading and
  /// tokenizing overlap with computing.
  using Source = std::function<std::optional<Question>()>;
  /// Called for every question in order, on the calling thread.
  using Sink = std::function<void(const AnswerOutcome&)>;

  /// Answers questions as they come. Throws Error for options that do not fit the model, and what
  /// source and sink throw; a question that cannot be asked is an outcome.
  void answer(const Source& source, const Sink& sink, const AnswerOptions& options = {}) const;

  /// One outcome per question, in order, none with an error: throws Error instead.
  std::vector<AnswerOutcome> answer(std::span<const Question> questions,
                                    const AnswerOptions& options = {}) const;

  /// The best options.top_k answers to a question in any of the documents. Throws Error that names
  /// a document which cannot be asked by its number.
  std::vector<DocumentAnswer> best_answers(const std::string& question,
                                           std::span<const std::string> documents,
                                           const AnswerOptions& options = {}) const;

 private:
  Model model_;
  Tokenizer tokenizer_;
};

}  // namespace longformer
