// Choosing among answers to a question about a text of any length that the model takes (spec.md
// A.6).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/global_attention.h"
#include "longformer/model.h"
#include "longformer/tokenizer.h"

namespace longformer {

/// Every choice is read as the pair `context`, `question choice`; without a context as the pair
/// `question`, `choice`; without a question as `context`, `choice`.
struct ChoiceQuestion {
  std::string context;
  std::string question;
  std::vector<std::string> choices;
};

/// The question of a JSON object: {"context", "question", "choices"}, SWAG's {"sent1", "sent2",
/// "ending0", …}, or WikiHop's {"query", "supports", "candidates"}, whose supports become one
/// context, a line each. Throws Error.
ChoiceQuestion parse_choice_question(std::string_view json);

struct ChooseOptions {
  /// Of a pair that is too long for the model keep the first tokens of its first text; without, it
  /// is an error.
  bool truncate = false;
  /// Absent: question and choice, what stands behind the first separators (Longformer).
  std::optional<GlobalAttention> global_attention;
  /// Pairs of one forward pass together hold at most this many tokens (at least one pair).
  std::int64_t batch_tokens = 8192;
};

struct ChoiceAnswer {
  /// Index of the choice with the largest logit.
  std::int64_t best = 0;
  /// One per choice.
  std::vector<float> logits;
  /// Softmax over the choices.
  std::vector<float> probabilities;
  /// Tokens of the longest pair with special ones, before truncation, and what was cut from it.
  std::int64_t tokens = 0;
  std::int64_t truncated = 0;
};

/// What became of one question: the reason when it cannot be answered, else its answer.
struct ChoiceOutcome {
  std::string error;
  ChoiceAnswer answer;
};

/// A multiple-choice model with its tokenizer.
class Chooser {
 public:
  /// Throws Error for a model without a multiple-choice head.
  Chooser(Model model, Tokenizer tokenizer);
  /// Throws Error for a folder that cannot be loaded or has no multiple-choice head.
  static Chooser load(const std::string& folder, const LoadOptions& options = {});

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// The next question, or nothing at the end; called on a thread of its own.
  using Source = std::function<std::optional<ChoiceQuestion>()>;
  /// Called for every question in order, on the calling thread.
  using Sink = std::function<void(const ChoiceOutcome&)>;

  /// Answers questions as they come. Throws Error for options that do not fit the model, and what
  /// source and sink throw; a question that cannot be answered is an outcome.
  void choose(const Source& source, const Sink& sink, const ChooseOptions& options = {}) const;

  /// One answer per question, in order. Throws Error for a question that cannot be answered.
  std::vector<ChoiceAnswer> choose(std::span<const ChoiceQuestion> questions,
                                   const ChooseOptions& options = {}) const;

 private:
  Model model_;
  Tokenizer tokenizer_;
};

}  // namespace longformer
