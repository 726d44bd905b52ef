// One forward pass over all examples of a set: their loss, and what is said of each.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "engine/frame/measured_pass.h"
#include "engine/frame/task.h"
#include "engine/training/trained_model.h"

namespace longformer {

/// Batches run when somebody asks for one of their records, so that the results of few of them are
/// in memory at a time. All of it must outlive the pass.
class LossPass final : public engine::MeasuredPass {
 public:
  LossPass(const TrainedModel& model, const engine::TrainingSet& data, Index batch_size)
      : model_(model), data_(data), batch_size_(batch_size) {}

  const engine::ReadRecord& record(std::size_t number) const override {
    return data_.records()[number];
  }
  std::vector<std::vector<float>> logits(std::size_t record) override;
  std::vector<std::vector<float>> vectors(std::size_t record) override;
  void with_states(std::size_t record, const engine::UseStates& use) override;

  /// The loss over all examples in their order; runs those that nobody asked for. As in the Hugging
  /// Face Trainer each has the mean loss of its batch, here of as many examples as a micro-batch
  /// has.
  double mean_loss();

 private:
  /// A batch that has been run.
  struct RunBatch {
    Index first = 0, end = 0;
    /// [examples + 1]: the first document of each.
    std::vector<Index> documents = {};
    /// [documents + 1]: the first token and the first vector of each.
    std::vector<Index> tokens = {}, vectors = {};
    engine::PassStates states = {};
  };
  /// Documents of an example in its batch.
  struct ExampleRows {
    const RunBatch& batch;
    Index first = 0, end = 0;
  };

  /// Runs up to the example, and forgets those before `first`.
  ExampleRows rows_of(Index example, Index first);
  void run_batch(bool keeps_states);

  const TrainedModel& model_;
  const engine::TrainingSet& data_;
  Index batch_size_;
  /// The example that the next batch begins with.
  Index next_ = 0;
  double sum_ = 0, count_ = 0;
  std::deque<RunBatch> batches_;
};

}  // namespace longformer
