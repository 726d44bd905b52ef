#include "tasks/training_batch.h"

#include <algorithm>

#include "core/error.h"
#include "models/encoder.h"

namespace longformer::tasks {
namespace {

template <typename Element, typename More>
void append(std::vector<Element>& all, const More& more) {
  all.insert(all.end(), more.begin(), more.end());
}

void check(const models::EncoderConfig& config, const TokenRow& row) {
  const auto inside = [](const std::vector<std::int32_t>& values, Index limit) {
    return std::all_of(values.begin(), values.end(),
                       [limit](std::int32_t value) { return value >= 0 && value < limit; });
  };
  require(static_cast<Index>(row.ids.size()) <= config.max_tokens(),
          "example: expected at most {} tokens, found {}", config.max_tokens(), row.ids.size());
  require(inside(row.ids, config.vocab_size), "example: expected token ids below {}, found others",
          config.vocab_size);
  require(inside(row.types, config.type_vocab_size),
          "example: expected token types below {}, found others", config.type_vocab_size);
}

void append_row(const models::EncoderConfig& config, const TokenRow& row, models::Batch& batch) {
  check(config, row);
  const Index first = batch.rows();
  append(batch.ids, row.ids);
  append(batch.types, row.types);
  append(batch.positions, models::position_rows(config, row.ids));
  for (const Index position : row.global_positions) batch.global_rows.push_back(first + position);
  batch.starts.push_back(batch.rows());
}

/// The documents of the example are in the batch already, its place in `examples` is not.
void append_candidates(const Example& example, TrainingBatch& batch) {
  if (example.places.empty()) return;
  const auto& starts = batch.tokens.starts;
  const auto first = static_cast<std::size_t>(batch.examples.back());
  for (const Index place : example.places) {
    auto& rows = batch.candidates.emplace_back();
    for (std::size_t d = first; d + 1 < starts.size(); ++d) rows.push_back(starts[d] + place);
  }
  batch.candidate_counts.push_back(static_cast<Index>(example.places.size()));
}

}  // namespace

TrainingBatch training_batch(const models::EncoderConfig& config,
                             std::span<const Example> examples) {
  TrainingBatch batch;
  batch.tokens.starts.push_back(0);
  batch.examples.push_back(0);
  const bool spans = !examples.empty() && !examples[0].starts.empty();
  if (spans) {
    batch.start_offsets.push_back(0);
    batch.end_offsets.push_back(0);
  }
  for (const Example& example : examples) {
    const Index first = batch.tokens.rows();
    for (const TokenRow& row : example.rows) append_row(config, row, batch.tokens);
    append_candidates(example, batch);
    batch.examples.push_back(batch.tokens.documents());
    if (example.label != kIgnoredLabel) batch.labels.push_back(example.label);
    append(batch.values, example.values);
    append(batch.token_labels, example.token_labels);
    if (!spans) continue;
    for (const Index start : example.starts) batch.starts.push_back(first + start);
    for (const Index end : example.ends) batch.ends.push_back(first + end);
    batch.start_offsets.push_back(static_cast<Index>(batch.starts.size()));
    batch.end_offsets.push_back(static_cast<Index>(batch.ends.size()));
    batch.has_answer.push_back(example.has_answer ? 1 : 0);
  }
  return batch;
}

}  // namespace longformer::tasks
