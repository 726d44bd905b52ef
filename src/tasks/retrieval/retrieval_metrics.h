// How well rankings have what is relevant at their top, as trec_eval counts it.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tasks/retrieval/retrieval_data.h"

namespace longformer::tasks {

inline constexpr std::array<Index, 5> kRecallCutoffs = {1, 5, 10, 100, 1000};

/// Scores of one query, or means over several; from 0 to 1, larger is better. All are 0 if nothing
/// is relevant.
struct RetrievalScores {
  /// Σ relevance ÷ log2(rank + 1) of the first ten, over that of the best order there is;
  /// relevance below 0 counts as 0.
  double ndcg = 0;
  /// 1 ÷ rank of the first relevant one of the first ten.
  double reciprocal_rank = 0;
  /// Σ precision down to each relevant document that was found, over the number of relevant ones.
  double average_precision = 0;
  /// The share of relevant documents among the first of kRecallCutoffs.
  std::array<double, kRecallCutoffs.size()> recall = {};

  /// ndcg_at_10, mrr_at_10, map and recall_at_1 …, in this order.
  std::vector<std::pair<std::string, double>> named() const;
};

/// Scores of a ranking in the order of trec_eval. Documents without a judgement are not relevant;
/// relevant ones that nothing found, in the corpus or not, count.
RetrievalScores retrieval_scores(const Ranking& ranking, const Relevance& relevance);

/// The mean over queries.
class RetrievalCounter {
 public:
  void add(const RetrievalScores& scores);
  RetrievalScores mean() const;

 private:
  RetrievalScores sum_;
  Index queries_ = 0;
};

}  // namespace longformer::tasks
