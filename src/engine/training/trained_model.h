// A model in training: what the objectives of all tasks share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/run/model_implementation.h"
#include "longformer/training.h"
#include "models/trained_folder.h"
#include "training/parameters.h"
#include "training/trainer.h"

namespace longformer {

/// Weights to train, and how they differ from the folder that the training begins with.
struct TrainedModelSetup {
  /// A model folder. Without weights in it, all are drawn.
  std::string folder;
  /// Instead of the folder: a config.json alone; all weights are drawn.
  std::string config_file = {};
  const engine::Task* task = nullptr;
  /// Names for a head that has labels; empty keeps those of the folder.
  std::vector<std::string> labels = {};
  /// problem_type; empty keeps it.
  std::string problem_type = {};
  /// The head is drawn even where the folder has one.
  bool draws_head = false;
  /// Further keys of config.json with their values.
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  /// Factor of the learning rate of what is not encoder.
  double head_rate_scale = 1;
  /// Weights that keep their values.
  std::function<bool(const std::string& name)> frozen = {};
  /// Rows of the position table before it keep their values.
  Index first_trained_position = 0;
  /// Global tokens use, and train, the query, key and value of all others.
  bool shares_global_projections = false;
  /// See FinetuneOptions.
  std::string random_blocks = {};
  /// See models::TrainedFolder. Tokens that the word embeddings do not have get rows.
  models::AddedTokens added_tokens = {};
  /// See models::TrainedFolder.
  bool globals_from_local = false;
  /// See models::TrainedFolder.
  std::optional<Index> max_text_tokens = std::nullopt;
  std::string passage_context = {};
  /// Weights of the classes in the loss of a step; none: all weigh alike.
  engine::ClassWeights class_weights = {};
  /// Told of weights that are not finite: LoadOptions::note.
  std::function<void(const std::string&)> note = {};
};

class TrainedModel {
 public:
  /// Throws Error for a folder that cannot be read.
  TrainedModel(TrainedModelSetup setup, const TrainingOptions& options);

  training::ParameterSet& parameters() { return parameters_; }
  const Model::Implementation& implementation() const { return *implementation_; }
  const models::EncoderConfig& config() const { return implementation_->config; }
  /// The model as it is now, for evaluation: the same weights.
  Model model() const { return Model::Implementation::model_of(implementation_); }
  /// Weights that the folder did not have.
  std::vector<std::string> drawn() const { return implementation_->weights.drawn_parameters(); }

  /// Its config.json, and for an adapter a hash of the weights that it is for.
  nlohmann::ordered_json description() const;

  const models::AddedTokens& added_tokens() const { return setup_.added_tokens; }

  /// Throws Error for an example of so many tokens that cannot be learned from.
  void check_lengths(std::span<const Index> lengths) const;

  /// See training::Objective.
  void begin_step(std::int64_t step) const { implementation_->weights.begin_step(step); }
  /// Forward and backward of one batch: adds the gradient of its mean loss to those of the
  /// parameters. `seed` is that of the dropout. With weights of classes, the mean over the labels
  /// of a whole step is weighted, as in CrossEntropyLoss of PyTorch over its examples.
  training::MicroBatchLoss step(const engine::TrainingBatch& batch, std::uint64_t seed) const;

  /// Forward and backward of one batch of vectors whose activations are in memory part by part
  /// (GradCache, Gao et al. 2021): vectors of all parts, the gradient of the loss for them, and
  /// each part again.
  training::MicroBatchLoss step_in_parts(std::span<const engine::TrainingBatch> parts,
                                         std::uint64_t seed) const;

  /// The loss of a batch as it is now, as `step` has it but without dropout. Fills in `states`
  /// unless they are null.
  ops::LossSum loss(const engine::TrainingBatch& batch, engine::PassStates* states = nullptr) const;

  /// The interface of training::Objective.
  void save(const std::filesystem::path& folder) const;
  void load(const std::filesystem::path& folder) const;

 private:
  void add_parameters();
  double weight_of(const engine::TrainingBatch& batch) const;
  /// Throws Error where an adapter cannot be trained.
  void check_adapter(bool is_adapter, bool is_drawn) const;
  ops::LossSum loss_of(const ops::Context& context, const engine::TrainingBatch& batch,
                       engine::HeadLossOptions options) const;

  TrainedModelSetup setup_;
  bool recomputes_;
  double label_smoothing_;
  /// The first of added tokens; 0 where there are none.
  Index first_added_ = 0;
  nlohmann::ordered_json json_;
  std::shared_ptr<const Model::Implementation> implementation_;
  training::ParameterSet parameters_;
};

}  // namespace longformer
