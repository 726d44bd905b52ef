// The hidden states of a document of many rows.
#pragma once

#include <span>

#include "api/model_implementation.h"
#include "tasks/reading.h"

namespace longformer {

/// The states of all rows behind each other, [n, D], computed for at most so many tokens (but at
/// least one row) at a time. The caller must hold turn(). Throws Error.
Tensor states_of(const Model::Implementation& model, std::span<const tasks::TokenRow> rows,
                 std::int64_t batch_tokens);

}  // namespace longformer
