// Options that a search and its evaluation share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "longformer/options.h"
#include "longformer/search.h"

namespace longformer::tasks {

OptionField search_mode_field(SearchMode& mode);
OptionField rerank_depth_field(std::int64_t& depth);
OptionField vectors_field(std::optional<VectorKinds>& kinds);
OptionField language_field(std::optional<std::string>& language);
OptionField passage_prompt_field(std::optional<std::string>& prompt);

}  // namespace longformer::tasks
