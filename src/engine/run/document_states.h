// The hidden states of a document of many rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/reading/reading.h"
#include "engine/run/model_implementation.h"
#include "longformer/report.h"

namespace longformer {

struct StateOptions {
  /// At most so many tokens (but at least one row) are computed at a time.
  std::int64_t batch_tokens = 8192;
  ProgressCallback progress = {};
  /// For each row its attention mask, or none; empty: no row has one.
  std::span<const std::vector<std::int32_t>> masks = {};
};

/// The states of all rows, one after another: [n, D] of the model's dtype, outside of its pool. The
/// caller must not hold turn(): every batch takes a turn of its own, so that other callers get
/// theirs in between. Throws Error.
Tensor states_of(const Model::Implementation& model, std::span<const engine::TokenRow> rows,
                 const StateOptions& options);

}  // namespace longformer
