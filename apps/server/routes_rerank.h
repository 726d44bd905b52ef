// The order of texts by their relevance to a query, for the routes that want one.
#pragma once

#include <string>
#include <vector>

#include "api.h"

namespace longformer::server {

/// One request to rerank.
struct Ranking {
  const Reranker& reranker;
  std::string query;
  std::vector<std::string> texts;
  /// The name of the texts in messages.
  const char* list;
};

/// The texts, best first; counts their lengths. `truncate`, `raw_scores` and `global_attention` of
/// the request count. Throws Failure.
std::vector<RankedText> ranked(const Api& api, ApiCall& call, const Ranking& ranking);

}  // namespace longformer::server
