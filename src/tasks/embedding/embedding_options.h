// Options that calls over passages share.
#pragma once

#include <optional>

#include "longformer/embedding.h"
#include "longformer/options.h"

namespace longformer::tasks {

OptionField passage_context_field(std::optional<PassageContext>& context);

}  // namespace longformer::tasks
