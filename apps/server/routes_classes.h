// Classes of texts, for the routes that give them in one form or another.
#pragma once

#include <string>
#include <vector>

#include "api.h"

namespace longformer::server {

/// The classes of each input; `truncate`, `raw_scores` and `function_to_apply` of `where` count.
/// Throws Failure.
std::vector<Classification> classified(const Api& api, ApiCall& call, const Classifier& classifier,
                                       std::vector<ClassifyInput> inputs, const Json& where,
                                       const char* list);

/// [{"score", "label"}, …], best first; `top_k` 0: all.
std::string scores_json(const Classification& found, std::int64_t top_k);

}  // namespace longformer::server
