// What a model is to learn of one document.
#pragma once

#include <cstdint>
#include <vector>

namespace longformer {

/// What the head should have said about one document. −100 does not count.
struct DocumentTarget {
  /// Sequence classification: the class, [1]. Token classification and masked LM: one for each
  /// token. Multiple choice and candidate scoring: the number of the right choice, [1], at the
  /// first document of a question.
  std::vector<std::int32_t> labels;
  /// Regression and multi-label classification: one for each label of the model.
  std::vector<float> values;
  /// Question answering: tokens at which a right answer starts and ends. Several are right
  /// together; none, or one beyond the document: it does not count.
  std::vector<std::int64_t> starts, ends;
  /// Candidate scoring: the token at which each candidate stands; the same number of them in all
  /// documents of a question.
  std::vector<std::int64_t> candidates = {};
};

}  // namespace longformer
