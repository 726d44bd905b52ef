// The last stage of a search: a cross-encoder scores the best passages of the stages before again.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "longformer/search.h"

namespace longformer::tasks {

/// Number of passages that the stages before have to find.
std::int64_t passages_for_reranking(const SearchQuery& query);

/// Gives hits the scores of the reranker, and keeps the best top_k of them in this order.
void rerank(const SearchQuery& query, std::vector<SearchHit>& hits);

/// Gives the first documents the logits of their best passages, and the others lower scores in the
/// order that they have.
void rerank(const SearchQuery& query, std::span<const std::string> best_passages,
            std::vector<RankedDocument>& documents);

}  // namespace longformer::tasks
