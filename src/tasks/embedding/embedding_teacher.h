// A model whose vectors of texts another one learns.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "engine/frame/task.h"
#include "longformer/embedding.h"

namespace longformer {

/// A training set with the vectors of a teacher, which it makes for every batch.
class TaughtSet final : public engine::TrainingSet {
 public:
  TaughtSet(std::unique_ptr<engine::TrainingSet> data, std::shared_ptr<const Embedder> teacher)
      : data_(std::move(data)), teacher_(std::move(teacher)) {}

  Index size() const override { return data_->size(); }
  std::span<const Index> lengths() const override { return data_->lengths(); }
  const engine::CollationReport& report() const override { return data_->report(); }
  std::span<const engine::ReadRecord> records() const override { return data_->records(); }
  engine::TrainingBatch batch(std::span<const Index> examples,
                              const engine::Epoch& epoch) const override;

 private:
  std::unique_ptr<engine::TrainingSet> data_;
  std::shared_ptr<const Embedder> teacher_;
};

/// The model of a folder as a teacher. Throws Error that names the folder when it makes vectors of
/// another size than `width`.
std::shared_ptr<const Embedder> load_teacher(const std::string& folder, Index width,
                                             const LoadOptions& options);

}  // namespace longformer
