// Choosing among answers to a question about a text of any length that the model takes
// (docs/spec/encoder.md#a6).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/choice_question.h"
#include "longformer/error.h"
#include "longformer/global_attention.h"
#include "longformer/model.h"
#include "longformer/tokenizer.h"
#include "longformer/too_long.h"

namespace longformer {

/// The question of a JSON object: {"context", "question", "choices"}, SWAG's {"sent1", "sent2",
/// "ending0", …}, or WikiHop's {"query", "supports", "candidates"}, whose supports become one
/// context, a line each. Throws Error.
ChoiceQuestion parse_choice_question(std::string_view json);

struct ChooseOptions {
  /// For questions that are too long for the model: truncate keeps the first tokens of the context.
  /// split, which only a head for candidate scoring has, repeats question and candidates before
  /// every part of the supports and adds the logits of all parts, as the authors' script does.
  TooLong too_long = TooLong::refuse;
  /// Overlap of the parts, in tokens.
  std::int64_t stride = 0;
  /// Absent: of a Longformer, question and choices: what stands behind the first separators for
  /// multiple choice, before the first one for candidate scoring.
  std::optional<GlobalAttention> global_attention = {};
  /// Rows of one forward pass together hold at most this many tokens (at least one row).
  std::int64_t batch_tokens = 8192;
};

struct ChoiceAnswer {
  /// Index of the choice with the largest logit.
  std::int64_t best = 0;
  /// One per choice.
  std::vector<float> logits;
  /// Softmax over the choices.
  std::vector<float> probabilities;
  /// Tokens of the longest pair, or of question, candidates and supports together, with special
  /// ones, before truncation; and what was cut from it.
  std::int64_t tokens = 0;
  std::int64_t truncated = 0;
  /// Rows in which a candidate was read.
  std::int64_t segments = 1;
};

/// {"tokens", "truncated", "segments", "best", "choice", "probabilities", "logits"}; `choices` are
/// those of the question.
std::string to_json(const ChoiceAnswer& answer, std::span<const std::string> choices);

/// What became of one question: the reason when it cannot be answered, else its answer.
struct ChoiceOutcome {
  std::string error;
  ChoiceAnswer answer;
  /// What would have helped; see Error.
  std::vector<Remedy> remedies = {};
};

/// A model for multiple choice, which reads every choice apart as a pair, or for candidate scoring,
/// which reads them together (docs/spec/tasks.md#c4-candidates), with its tokenizer.
class Chooser {
 public:
  /// Throws Error for a model with neither of the heads.
  Chooser(Model model, Tokenizer tokenizer);
  /// Throws Error for a folder that cannot be loaded or has neither of the heads.
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
