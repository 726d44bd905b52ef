// From what the head says of a question over paragraphs to an answer, its evidence, and the
// paragraphs that a second stage reads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "longformer/options.h"
#include "tasks/multi_hop/multi_hop_data.h"
#include "tasks/multi_hop/multi_hop_head.h"
#include "tasks/multi_hop/multi_hop_metrics.h"
#include "tasks/multi_hop/multi_hop_reader.h"
#include "tasks/question_answering/answers.h"

namespace longformer::tasks {

/// A part of a title (kTitle) or of a sentence.
struct MultiHopSpan {
  Index paragraph = 0, sentence = kTitle;
  CharacterSpan characters;
  std::string text;
  /// Logit of the first plus that of the last token.
  float logit = 0;
};

struct EvidenceSentence {
  Index paragraph = 0, sentence = 0;
  float logit = 0;
};

struct MultiHopDecision {
  AnswerType type = AnswerType::span;
  /// "yes", "no", or the text of the span; empty where there is none.
  std::string answer;
  /// The best span whatever the type is; absent where no token of a text was read.
  std::optional<MultiHopSpan> span;
  /// In their order.
  std::vector<EvidenceSentence> evidence;
  /// [paragraphs]; −∞ of one whose mark was not read.
  std::vector<float> paragraphs;
};

/// The answer of the type with the largest logit; a span is the pair of tokens of one title or
/// sentence with the largest sum, at most so many tokens long, widened to whole words. Evidence is
/// of the paragraphs with the largest sums of their logit and that of their best sentence: all
/// sentences above 0 and always the best one.
MultiHopDecision decide(const MultiHopQuestion& question, const MultiHopReading& reading,
                        const MultiHopLogits& logits, const AnswerRules& rules,
                        Index evidence_paragraphs);

/// The facts that the evidence is.
std::vector<SupportingFact> facts_of(const MultiHopQuestion& question,
                                     const std::vector<EvidenceSentence>& evidence);

/// The numbers of the paragraphs that a second stage reads, ascending.
std::vector<Index> selected_paragraphs(const std::vector<float>& logits,
                                       const MultiHopOptions& options);

}  // namespace longformer::tasks
