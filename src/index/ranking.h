// One ranking out of two: what a passage means, and which words of the question it has.
#pragma once

#include <span>

namespace longformer::index {

/// What a hybrid search orders passages by. examples/retrieval/fusion.py chose its form and weight
/// on text that no test set has; neither depends on the model's scale of cosines or on the size of
/// the index.
class Fusion {
 public:
  Fusion() = default;
  /// Scores of one question for all passages of the index: cosines, and BM25 with 0 for passages
  /// without any of its words.
  Fusion(std::span<const float> cosines, std::span<const float> words);

  float operator()(float cosine, float words) const;

 private:
  float mean_ = 0;
  float cosine_factor_ = 1, words_factor_ = 0;
};

}  // namespace longformer::index
