// Examples behind each other, as one forward pass and its loss take them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/batch.h"
#include "models/config.h"
#include "tasks/collation.h"

namespace longformer::tasks {

/// The rows of some examples, and their targets; those of other tasks are empty. n rows of tokens.
struct TrainingBatch {
  models::Batch tokens;
  /// First document of each example, and the number of documents at the end: the choices of a
  /// question are documents of one example, and so are the parts of its supports.
  std::vector<Index> examples;
  /// For each example its class, or which of its documents or candidates is the right choice.
  std::vector<std::int32_t> labels;
  /// [examples, C], multi-label or regression.
  std::vector<float> values;
  /// [n] class of each token, kIgnoredLabel for none.
  std::vector<std::int32_t> token_labels;
  /// Rows of `tokens` at which answers start and end, example after example; those of example e are
  /// starts[start_offsets[e]] up to starts[start_offsets[e + 1]], and ends alike.
  std::vector<Index> starts, ends, start_offsets, end_offsets;
  /// [examples] 1 where the row holds an answer; see Example::starts.
  std::vector<std::uint8_t> has_answer;
  /// [examples] how many candidates each has, and of all of them the rows of `tokens` at which they
  /// stand, one in each document of the example.
  std::vector<Index> candidate_counts;
  std::vector<std::vector<Index>> candidates;
};

/// Lays examples of one task behind each other. Throws Error for ids or types that the model does
/// not have, and for rows longer than it takes.
TrainingBatch training_batch(const models::EncoderConfig& config,
                             std::span<const Example> examples);

}  // namespace longformer::tasks
