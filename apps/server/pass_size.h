// The size of a forward pass.
#pragma once

#include <cstdint>

#include "longformer/model.h"

namespace longformer::server {

/// Tokens that a pass holds beside its first row: 50 ms of work, so that nobody waits long for it
/// to end, from 64 to `most`. Larger ones gain little.
std::int64_t pass_tokens(const Model& model, std::int64_t most);

}  // namespace longformer::server
