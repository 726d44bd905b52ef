// Answers and the sentences that support them, as the evaluation script of HotpotQA counts them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tasks/multi_hop/multi_hop_data.h"

namespace longformer::tasks {

struct PrecisionRecall {
  double exact_match = 0, f1 = 0, precision = 0, recall = 0;
};

/// The best of words that both answers have; "yes", "no" and "noanswer" are right only whole.
PrecisionRecall score_words(const std::string& predicted, const std::string& gold);
/// Facts as sets.
PrecisionRecall score_facts(std::span<const SupportingFact> predicted,
                            std::span<const SupportingFact> gold);
/// Products of the precisions and of the recalls.
PrecisionRecall joint_scores(const PrecisionRecall& answer, const PrecisionRecall& facts);

/// An answer is "yes" or "no", after normalisation, or anything else.
enum class AnswerType : std::int8_t { span, yes, no };
AnswerType answer_type(const std::string& answer);

/// Answer and facts as far as they are known, or were predicted.
struct MultiHopAnswer {
  std::optional<std::string> answer = std::nullopt;
  std::optional<std::vector<SupportingFact>> facts = std::nullopt;
};

/// Sums over questions.
class MultiHopCounter {
 public:
  /// An absent part on either side adds nothing to the sums.
  void add(const MultiHopAnswer& predicted, const MultiHopAnswer& gold);

  /// Names of the official script with values from 0 to 1, the joint ones first: sums by the number
  /// of questions. Then paragraph_recall, the share of the paragraphs with facts that the
  /// predicted facts are of, as a mean over questions with facts; and type_accuracy, how often both
  /// answers are of one type, by the questions with answers.
  std::vector<std::pair<std::string, double>> named() const;

 private:
  static void add(const PrecisionRecall& one, PrecisionRecall& sum);

  PrecisionRecall answer_, facts_, joint_;
  double paragraph_recall_ = 0;
  std::int64_t questions_ = 0, with_facts_ = 0, with_answer_ = 0, right_types_ = 0;
};

}  // namespace longformer::tasks
