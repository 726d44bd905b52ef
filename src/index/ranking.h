// One ranking out of two: what a passage means, and which words of the question it has.
#pragma once

#include <span>

namespace longformer::index {

/// Score by which a hybrid search orders passages: the standard deviations of a cosine from the
/// mean of all passages, and kWeightOfWords times the share of BM25 that a passage could reach. So
/// neither the model's scale of cosines nor the size of the index matters, and a question whose
/// words say nothing is answered by its meaning. experiments/retrieval/fusion.py chose form and
/// weight among twelve, on text that no test set has.
class Fusion {
 public:
  Fusion() = default;
  /// The cosines of one question with all passages of the index, and BM25 of a passage that is full
  /// of its words.
  Fusion(std::span<const float> cosines, double reach);

  /// The score of one passage; its words are 0 where it has none of the question's.
  float operator()(float cosine, float words) const;

 private:
  float mean_ = 0;
  float cosine_factor_ = 1, words_factor_ = 0;
};

}  // namespace longformer::index
