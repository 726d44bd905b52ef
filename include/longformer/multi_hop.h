// Answers that take several paragraphs, with the sentences that support them, from models for
// multi-hop question answering (HotpotQA; Longformer paper, appendix D).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/error.h"
#include "longformer/global_attention.h"
#include "longformer/model.h"
#include "longformer/multi_hop_options.h"
#include "longformer/multi_hop_question.h"
#include "longformer/tokenizer.h"
#include "longformer/too_long.h"

namespace longformer {

struct MultiHopAnswerOptions {
  /// Longest answer.
  std::int64_t max_answer_tokens = 30;
  /// From how many paragraphs the evidence comes; 0: every sentence whose logit is above 0.
  std::int64_t evidence_paragraphs = MultiHopOptions().evidence_paragraphs;
  /// TooLong::split reads rows of as many whole paragraphs as fit, each behind the question;
  /// TooLong::truncate cuts the end.
  TooLong too_long = TooLong::refuse;
  /// This has no effect: rows do not overlap.
  std::int64_t stride = 0;
  /// Absent: the question and the marks of paragraphs and sentences (Longformer). "question" and
  /// "none" are the only rules.
  std::optional<GlobalAttention> global_attention = {};
  /// Rows of one forward pass together hold at most this many tokens (at least one row).
  std::int64_t batch_tokens = 8192;
};

/// A part of a title or sentence.
struct ParagraphSpan {
  std::int64_t paragraph = 0;
  /// −1: of the title.
  std::int64_t sentence = -1;
  /// Characters of the title or sentence.
  CharacterSpan characters = {};
};

/// A sentence that supports the answer.
struct Evidence {
  std::int64_t paragraph = 0, sentence = 0;
  /// The sigmoid of the logit is the probability.
  float logit = 0;
};

/// What became of one question: the reason when it cannot be asked, else its answer.
struct MultiHopOutcome {
  std::string error;
  /// "yes", "no" or the text of the span; empty where there is none.
  std::string answer;
  /// "span", "yes" or "no".
  std::string type;
  /// Probability of the type; of a span times those of its first and of its last token, over all
  /// tokens.
  float score = 0;
  /// Those of the type; a span has the logit of its first plus that of its last token.
  float logit = 0;
  /// Where the answer stands; absent for yes and no.
  std::optional<ParagraphSpan> span = {};
  /// In the order of the paragraphs.
  std::vector<Evidence> evidence;
  /// [paragraphs]; −∞ for those that were not read.
  std::vector<float> paragraph_logits;
  /// Tokens of question and paragraphs with special ones, before truncation, and what
  /// TooLong::truncate cut off.
  std::int64_t tokens = 0, truncated = 0;
  /// Rows that were read.
  std::int64_t segments = 0;
  /// What would have helped; see Error.
  std::vector<Remedy> remedies = {};
};

/// A model for multi-hop question answering with its tokenizer.
class MultiHopAnswerer {
 public:
  /// Throws Error for a model without such a head, and for a tokenizer without the marks.
  MultiHopAnswerer(Model model, Tokenizer tokenizer);
  /// Throws Error for a folder that cannot be loaded or has no such head.
  static MultiHopAnswerer load(const std::string& folder, const LoadOptions& options = {});
  /// Whether the configuration of a folder names such a head. Throws Error when it cannot be read.
  static bool is_one(const std::string& folder);

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// Throws Error for options that do not fit the model; a question that cannot be asked is an
  /// outcome.
  MultiHopOutcome answer(const MultiHopQuestion& question,
                         const MultiHopAnswerOptions& options = {}) const;

  /// One outcome per question, in order, none with an error: throws Error instead.
  std::vector<MultiHopOutcome> answer(std::span<const MultiHopQuestion> questions,
                                      const MultiHopAnswerOptions& options = {}) const;

 private:
  Model model_;
  Tokenizer tokenizer_;
};

/// A text as a paragraph; its sentences, behind each other, are the text.
Paragraph paragraph_of(std::string title, const std::string& text);

/// A question of a data set with its name there.
struct NamedMultiHopQuestion {
  std::string id;
  /// Number of the record, or line, from 1.
  std::int64_t line = 0;
  MultiHopQuestion question;
};

/// Questions in the forms of HotpotQA, a JSON list or a line each: see docs/cli.md. `name` stands
/// for the text in messages. Throws Error.
std::vector<NamedMultiHopQuestion> parse_multi_hop_questions(std::string_view text,
                                                             const std::string& name);

}  // namespace longformer
