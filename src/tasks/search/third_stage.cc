#include "tasks/search/third_stage.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "longformer/reranking.h"

namespace longformer::tasks {
namespace {

/// The ranking of passages for a question, with its cost.
std::vector<RankedText> ranking_of_passages(const SearchQuery& query,
                                            std::span<const std::string> passages) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<RankedText> ranked = query.reranker->rank(query.question, passages);
  if (query.reranked) {
    RerankCost cost = {.texts = std::ssize(passages)};
    for (const RankedText& one : ranked) cost.tokens += one.outcome.tokens;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    cost.seconds = seconds.count();
    query.reranked(cost);
  }
  return ranked;
}

}  // namespace

std::int64_t passages_for_reranking(const SearchQuery& query) {
  return query.reranker == nullptr ? query.top_k : std::max(query.top_k, query.rerank_depth);
}

void rerank(const SearchQuery& query, std::vector<SearchHit>& hits) {
  if (query.reranker == nullptr) return;
  std::vector<std::string> texts;
  for (const SearchHit& hit : hits) texts.push_back(hit.text);
  std::vector<SearchHit> ordered;
  for (const RankedText& one : ranking_of_passages(query, texts)) {
    if (std::ssize(ordered) == query.top_k) break;
    ordered.push_back(std::move(hits[one.index]));
    ordered.back().score = one.outcome.score;
  }
  hits = std::move(ordered);
}

void rerank(const SearchQuery& query, std::span<const std::string> best_passages,
            std::vector<RankedDocument>& documents) {
  if (query.reranker == nullptr || best_passages.empty()) return;
  const auto count = static_cast<std::ptrdiff_t>(best_passages.size());
  std::vector<RankedDocument> ordered;
  for (const RankedText& one : ranking_of_passages(query, best_passages)) {
    ordered.push_back({.name = documents[one.index].name, .score = one.outcome.logit});
  }
  const float lowest = ordered.back().score;
  const bool has_others = std::ssize(documents) > count;
  const float highest_other = has_others ? documents[static_cast<std::size_t>(count)].score : 0;
  std::ranges::move(ordered, documents.begin());
  for (auto other = documents.begin() + count; other != documents.end(); ++other) {
    other->score += lowest - 1 - highest_other;
  }
}

}  // namespace longformer::tasks
