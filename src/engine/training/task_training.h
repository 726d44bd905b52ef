// Training a model for a task: what the trainings of all of them share.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/frame/task.h"
#include "engine/training/trained_model.h"
#include "longformer/training.h"
#include "training/trainer.h"

namespace longformer {

/// How a training finds out how well the model does.
struct TaskEvaluation {
  std::vector<std::string> metric_names;
  /// Null: never.
  std::function<training::Metrics()> run = {};
};

class TaskObjective final : public training::Objective {
 public:
  /// All of it must outlive the objective.
  TaskObjective(const TrainingOptions& options, const engine::TrainingSet& data,
                const TrainedModel& model, TaskEvaluation evaluation)
      : options_(options), data_(data), model_(model), evaluation_(std::move(evaluation)) {
    model_.check_lengths(data_.lengths());
  }

  /// Vectors of texts: micro-batches of more examples go through the model in parts of so many.
  void set_part_size(Index examples) { part_size_ = examples; }

  /// Facts of the data that decide the training (training::Objective::setup), and the first line of
  /// its log.
  void set_facts(nlohmann::ordered_json setup, nlohmann::ordered_json beginning) {
    facts_ = std::move(setup);
    beginning_ = std::move(beginning);
  }
  /// Makes the model card.
  void set_card(std::function<std::string(const TrainingResult&)> card) { card_ = std::move(card); }
  /// A file beside the weights of every model that is written.
  void set_file(std::string name, std::string text) { file_ = {std::move(name), std::move(text)}; }

  Index micro_batches() const { return (data_.size() + batch_size() - 1) / batch_size(); }

  void begin_step(std::int64_t step) override { model_.begin_step(step); }
  training::MicroBatchLoss run(const training::MicroBatch& micro) override;
  std::vector<std::string> metric_names() const override { return evaluation_.metric_names; }
  training::Metrics evaluate() override {
    return evaluation_.run ? evaluation_.run() : training::Metrics();
  }
  nlohmann::ordered_json setup() const override;
  nlohmann::ordered_json beginning() const override { return beginning_; }
  std::string card(const TrainingResult& result) const override {
    return card_ ? card_(result) : std::string();
  }
  void save(const std::filesystem::path& folder) override;
  void load(const std::filesystem::path& folder) override { model_.load(folder); }

 private:
  Index batch_size() const { return options_.per_device_train_batch_size; }
  void reorder(std::int64_t epoch);

  const TrainingOptions& options_;
  const engine::TrainingSet& data_;
  const TrainedModel& model_;
  TaskEvaluation evaluation_;
  nlohmann::ordered_json facts_ = nlohmann::ordered_json::object();
  nlohmann::ordered_json beginning_ = nlohmann::ordered_json::object();
  std::function<std::string(const TrainingResult&)> card_ = {};
  /// Name and text; none: there is no such file.
  std::pair<std::string, std::string> file_ = {};
  Index part_size_ = 0;
  std::int64_t epoch_ = -1;
  std::vector<Index> order_;
};

}  // namespace longformer
