// Classes of texts, for the routes that give them in one form or another.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "api.h"

namespace longformer::server {

/// Options of a request: `truncate`, `raw_scores` and `function_to_apply` of `where` count.
ClassifyOptions classify_options_of(const Api& api, const ApiCall& call,
                                    const Classifier& classifier, const Json& where);

/// The classes of each input. `list` names the inputs in messages. Throws Failure.
std::vector<Classification> classified(ApiCall& call, const Classifier& classifier,
                                       std::span<const ClassifyInput> inputs,
                                       const ClassifyOptions& options, const char* list);
/// The classes of `inputs` of a request. Throws Failure.
std::vector<Classification> classified(const Api& api, ApiCall& call, const Classifier& classifier,
                                       std::vector<ClassifyInput> inputs, const Json& where);

/// [{"score", "label"}, …], best first; `top_k` 0: all.
std::string scores_json(const Classification& found, std::int64_t top_k);

}  // namespace longformer::server
