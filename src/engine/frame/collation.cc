#include "engine/frame/collation.h"

#include <utility>

namespace longformer::engine {

Example one_example(Reading& reading) {
  Example example;
  example.rows = std::move(reading.rows);
  example.targets.resize(example.rows.size());
  return example;
}

Collator::Collator(const Tokenizer& tokenizer, ReadingOptions options, bool label_all_pieces)
    : reader_(tokenizer, std::move(options)), label_all_pieces_(label_all_pieces) {
  // Their sentence stands before those of the task.
  report_.counts[kTruncatedDocuments] = 0;
  report_.counts[kTruncatedTokens] = 0;
}

void Collator::count(const Reading& reading, Index rows) {
  ++report_.documents;
  report_.tokens += reading.tokens;
  report_.counts[kTruncatedDocuments] += reading.truncated > 0 ? 1 : 0;
  report_.counts[kTruncatedTokens] += reading.truncated;
  report_.rows += rows;
}

std::vector<Example> Collator::examples_of(Reading& reading) {
  count(reading, std::ssize(reading.rows));
  std::vector<Example> examples;
  for (TokenRow& row : reading.rows) {
    Example& example = examples.emplace_back();
    example.rows.push_back(std::move(row));
    example.targets.resize(1);
  }
  return examples;
}

Example Collator::example_of(Reading& reading) {
  count(reading, std::ssize(reading.rows));
  return one_example(reading);
}

TrainingBatch training_batch(const models::EncoderConfig& config,
                             std::span<const Example> examples) {
  TrainingBatch batch;
  models::BatchBuilder builder(config);
  for (const Example& example : examples) {
    for (const TokenRow& row : example.rows) {
      builder.add({.ids = row.ids,
                   .types = row.types,
                   .globals = row.global_positions ? std::span<const Index>(*row.global_positions)
                                                   : std::span<const Index>(),
                   .edges = row.edges},
                  "example");
    }
    batch.targets.insert(batch.targets.end(), example.targets.begin(), example.targets.end());
    batch.questions.push_back(static_cast<Index>(example.rows.size()));
  }
  batch.tokens = builder.finish();
  return batch;
}

void CollatedExamples::add(const std::string& place, const DataOptions& options,
                           const std::function<std::vector<Example>(Collator&)>& collate) {
  DataReport made = {.file = collator_.report().data.file};
  ReadRecord record = {.first = size()};
  read_record(place, options, made, [&] {
    for (Example& example : collate(collator_)) {
      Index tokens = 0;
      for (const TokenRow& row : example.rows) tokens += static_cast<Index>(row.ids.size());
      lengths_.push_back(tokens);
      examples_.push_back(std::move(example));
    }
  });
  record.end = size();
  record.reading = collator_.take_kept();
  if (made.skipped > 0) record.reading.reset();
  if (collator_.keeps_readings()) records_.push_back(std::move(record));
  DataReport& all = collator_.report().data;
  if (made.skipped == 0) return;
  all.add_skipped(made);
  --all.examples;
}

TrainingBatch CollatedExamples::batch(std::span<const Index> examples, const Epoch& epoch) const {
  std::vector<Example> chosen;
  for (const Index index : examples) chosen.push_back(example(index, epoch));
  return training_batch(config_, chosen);
}

}  // namespace longformer::engine
