// One ranking out of two: what a passage means, and which words of the question it has.
#pragma once

#include <span>
#include <vector>

namespace longformer::index {

/// Score by which a hybrid search orders passages: the standard deviations of a cosine from the
/// mean of all passages, and kWeightOfWords times the share of BM25 that a passage could reach. So
/// neither the model's scale of cosines nor the size of the index matters, and a question whose
/// words say nothing is answered by its meaning. experiments/retrieval/fusion.py chose form and
/// weight among twelve, on text that no test set has. An index with several kinds of vectors takes
/// the mean of their deviations.
class Fusion {
 public:
  Fusion() = default;
  /// For each kind of vectors the scores of one question with all passages of the index, and BM25
  /// of a passage that is full of its words.
  Fusion(std::span<const std::span<const float>> kinds, double reach);

  /// The score of one passage by its score of each kind; its words are 0 where it has none of the
  /// question's.
  float operator()(std::span<const float> scores, float words) const;

 private:
  struct Scale {
    float mean = 0, factor = 1;
  };
  static Scale scale_of(std::span<const float> scores);

  std::vector<Scale> scales_;
  float words_factor_ = 0;
};

}  // namespace longformer::index
