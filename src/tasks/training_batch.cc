#include "tasks/training_batch.h"

namespace longformer::tasks {
namespace {

template <typename Element, typename More>
void append(std::vector<Element>& all, const More& more) {
  all.insert(all.end(), more.begin(), more.end());
}

/// `starts` are the first rows of the documents of the example.
void append_candidates(const Example& example, std::span<const Index> starts,
                       TrainingBatch& batch) {
  if (example.places.empty()) return;
  for (const Index place : example.places) {
    auto& rows = batch.candidates.emplace_back();
    for (const Index start : starts) rows.push_back(start + place);
  }
  batch.candidate_counts.push_back(static_cast<Index>(example.places.size()));
}

}  // namespace

TrainingBatch training_batch(const models::EncoderConfig& config,
                             std::span<const Example> examples) {
  TrainingBatch batch;
  models::BatchBuilder builder(config);
  batch.examples.push_back(0);
  const bool spans = !examples.empty() && !examples[0].starts.empty();
  if (spans) {
    batch.start_offsets.push_back(0);
    batch.end_offsets.push_back(0);
  }
  for (const Example& example : examples) {
    const Index first = builder.rows();
    std::vector<Index> starts;
    for (const TokenRow& row : example.rows) {
      starts.push_back(builder.rows());
      builder.add({.ids = row.ids,
                   .types = row.types,
                   .globals = row.global_positions ? std::span<const Index>(*row.global_positions)
                                                   : std::span<const Index>()},
                  "example");
    }
    append_candidates(example, starts, batch);
    batch.examples.push_back(batch.examples.back() + static_cast<Index>(starts.size()));
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
  batch.tokens = builder.finish();
  return batch;
}

}  // namespace longformer::tasks
