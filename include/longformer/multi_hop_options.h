// How questions over several paragraphs are learnt and answered (HotpotQA, 2WikiMultiHopQA).
#pragma once

#include <array>
#include <cstdint>

namespace longformer {

struct MultiHopOptions {
  /// Training: weights of the losses of answer spans, types of answer, paragraphs and sentences.
  std::array<double, 4> loss_weights = {1, 1, 1, 1};
  /// From how many paragraphs the evidence comes; 0: every sentence whose logit is above 0.
  std::int64_t evidence_paragraphs = 2;
  /// A selection of paragraphs (EvaluateOptions::selected) has those whose logit is above the
  /// threshold, at most so many, and never fewer than two.
  std::int64_t keep_paragraphs = 5;
  double paragraph_threshold = -3;
};

}  // namespace longformer
