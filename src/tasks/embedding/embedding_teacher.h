// A model whose vectors of texts another one learns.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "engine/frame/task.h"
#include "longformer/embedding.h"

namespace longformer {

/// A training set with the vectors of a teacher, which it makes for every batch.
class TaughtSet final : public tasks::TrainingSet {
 public:
  TaughtSet(std::unique_ptr<tasks::TrainingSet> data, std::shared_ptr<const Embedder> teacher)
      : data_(std::move(data)), teacher_(std::move(teacher)) {}

  Index size() const override { return data_->size(); }
  std::span<const Index> lengths() const override { return data_->lengths(); }
  const tasks::CollationReport& report() const override { return data_->report(); }
  std::span<const tasks::ReadRecord> records() const override { return data_->records(); }
  tasks::TrainingBatch batch(std::span<const Index> examples,
                             const tasks::Epoch& epoch) const override;

 private:
  std::unique_ptr<tasks::TrainingSet> data_;
  std::shared_ptr<const Embedder> teacher_;
};

/// The model of a folder as a teacher. Throws Error that names the folder when it makes vectors of
/// another size than `width`.
std::shared_ptr<const Embedder> load_teacher(const std::string& folder, Index width,
                                             const LoadOptions& options);

}  // namespace longformer
