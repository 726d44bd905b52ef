// How vectors of texts are trained: `finetune` with the task "embedding".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace longformer {

/// What is learned of texts that belong together. The names are those of sentence-transformers.
enum class EmbeddingLoss {
  /// MultipleNegativesRankingLoss: cross-entropy of an anchor's cosines ÷ temperature with the
  /// positives and negatives of the whole batch, of which its own positive is right. A text that is
  /// the right one's equal is left out.
  contrastive,
  /// TripletLoss: max(0, |anchor − positive| − |anchor − negative| + margin).
  triplet,
  /// CosineSimilarityLoss: squared difference of the cosine of two texts and their score.
  cosine,
  /// MSELoss: squared difference of the elements of a vector and those of its teacher, alone.
  distillation,
};

struct EmbeddingTrainingOptions {
  /// Absent: cosine where the data have scores, contrastive where they have anchors or questions,
  /// else distillation. Where there are teacher's vectors, distillation is added to the others.
  std::optional<EmbeddingLoss> loss = {};
  /// Of the contrastive loss.
  double temperature = 0.05;
  /// The contrastive loss is the mean of that of the anchors among the positives, and of the
  /// positives among the anchors (MultipleNegativesSymmetricRankingLoss).
  bool symmetric = false;
  /// Of the triplet loss.
  double margin = 5;
  /// Factor of the distillation where it is added to another loss.
  double distillation_weight = 1;
  /// A document without "passages" is cut into passages of so many tokens, as `search` cuts it,
  /// each with a vector from the states of the document; 0: it has one vector.
  std::int64_t passage_tokens = 0;
  /// Model folder whose vectors of the same texts, passages alone, are to be learned; empty: none,
  /// or those of the data.
  std::string teacher = {};
};

}  // namespace longformer
