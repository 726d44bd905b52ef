#include <map>
#include <string>
#include <variant>

#include "core/option_fields.h"
#include "tasks/rerank/reranking.h"

namespace longformer::tasks {
namespace {

// Names in DataOptions::further.
constexpr const char* kLossKey = "rerank_loss";
constexpr const char* kHardNegativesKey = "hard_negatives";

constexpr const char* kPointwise = "pointwise";
constexpr const char* kListwise = "listwise";

}  // namespace

RerankTaskOptions rerank_task_options(const DataOptions& options) {
  RerankTaskOptions found;
  if (const auto one = options.further.find(kLossKey); one != options.further.end()) {
    const auto& name = std::get<std::string>(one->second);
    if (name == kPointwise) found.loss = RerankLoss::pointwise;
    if (name == kListwise) found.loss = RerankLoss::listwise;
  }
  if (const auto one = options.further.find(kHardNegativesKey); one != options.further.end()) {
    found.hard_negatives = std::get<std::int64_t>(one->second);
  }
  return found;
}

OptionFields rerank_fields(DataOptions& options, OptionUse use) {
  const std::string group = "Reranking (rerank)";
  OptionFields all = {
      {.name = kHardNegativesKey,
       .value = &std::get<std::int64_t>(
           options.further.try_emplace(kHardNegativesKey, std::int64_t{0}).first->second),
       .help = "queries without irrelevant texts get so many texts of other queries, the best by "
               "BM25 ({})",
       .group = group}};
  if (use == OptionUse::training) {
    all.push_back({.name = kLossKey,
                   .value = &std::get<std::string>(
                       options.further.try_emplace(kLossKey, std::string()).first->second),
                   .help = "binary cross-entropy of each pair, or cross-entropy over the list of a "
                           "query (listwise for positives and negatives, else pointwise)",
                   .group = group,
                   .choices = {kPointwise, kListwise}});
  }
  return all;
}

}  // namespace longformer::tasks
