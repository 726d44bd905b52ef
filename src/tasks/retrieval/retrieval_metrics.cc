#include "tasks/retrieval/retrieval_metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace longformer::tasks {
namespace {

/// Number of hits that nDCG and MRR read.
constexpr std::size_t kFirst = 10;

/// Gain of a document at a rank that counts from 0.
double discounted(std::int64_t relevance, std::size_t rank) {
  return static_cast<double>(relevance) / std::log2(static_cast<double>(rank) + 2);
}

/// The gain of the best order of relevant documents.
double ideal_gain(std::vector<std::int64_t> grades) {
  std::sort(grades.begin(), grades.end(), std::greater<>());
  double gain = 0;
  for (std::size_t rank = 0; rank < std::min(kFirst, grades.size()); ++rank) {
    gain += discounted(grades[rank], rank);
  }
  return gain;
}

}  // namespace

std::vector<std::pair<std::string, double>> RetrievalScores::named() const {
  std::vector<std::pair<std::string, double>> values = {
      {"ndcg_at_10", ndcg}, {"mrr_at_10", reciprocal_rank}, {"map", average_precision}};
  for (std::size_t i = 0; i < recall.size(); ++i) {
    values.emplace_back(fmt::format("recall_at_{}", kRecallCutoffs[i]), recall[i]);
  }
  return values;
}

RetrievalScores retrieval_scores(const Ranking& ranking, const Relevance& relevance) {
  std::vector<std::int64_t> grades;
  for (const auto& [id, grade] : relevance) {
    if (grade > 0) grades.push_back(grade);
  }
  RetrievalScores scores;
  if (grades.empty()) return scores;
  const auto relevant = static_cast<double>(grades.size());
  double gain = 0, found = 0;
  for (std::size_t rank = 0; rank < ranking.size(); ++rank) {
    const auto judged = relevance.find(ranking[rank].id);
    if (judged == relevance.end() || judged->second <= 0) continue;
    ++found;
    scores.average_precision += found / static_cast<double>(rank + 1) / relevant;
    for (std::size_t i = 0; i < kRecallCutoffs.size(); ++i) {
      if (static_cast<Index>(rank) < kRecallCutoffs[i]) scores.recall[i] = found / relevant;
    }
    if (rank >= kFirst) continue;
    gain += discounted(judged->second, rank);
    if (found == 1) scores.reciprocal_rank = 1 / static_cast<double>(rank + 1);
  }
  scores.ndcg = gain / ideal_gain(std::move(grades));
  return scores;
}

void RetrievalCounter::add(const RetrievalScores& scores) {
  ++queries_;
  sum_.ndcg += scores.ndcg;
  sum_.reciprocal_rank += scores.reciprocal_rank;
  sum_.average_precision += scores.average_precision;
  for (std::size_t i = 0; i < sum_.recall.size(); ++i) sum_.recall[i] += scores.recall[i];
}

RetrievalScores RetrievalCounter::mean() const {
  if (queries_ == 0) return {};
  const auto count = static_cast<double>(queries_);
  RetrievalScores mean = {.ndcg = sum_.ndcg / count,
                          .reciprocal_rank = sum_.reciprocal_rank / count,
                          .average_precision = sum_.average_precision / count,
                          .recall = sum_.recall};
  for (double& recall : mean.recall) recall /= count;
  return mean;
}

}  // namespace longformer::tasks
