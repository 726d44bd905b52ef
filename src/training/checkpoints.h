// The checkpoints of an output folder, and the state of a training that they keep beside the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "longformer/training.h"

namespace longformer::training {

/// The file of a checkpoint that holds its TrainerState.
inline constexpr const char* kStateFile = "trainer_state.json";

/// Progress of a training. Random numbers and the order of the data follow from these counters and
/// the seed, so that nothing else needs to be kept.
struct TrainerState {
  /// Steps done, and the tokens that they saw.
  std::int64_t step = 0;
  std::int64_t tokens = 0;
  /// Micro-batches done by all ranks since the beginning.
  std::int64_t micro_batches = 0;
  std::int64_t phase = 0;
  /// Progress in this phase: steps, epochs and the micro-batches of the running epoch that are
  /// done.
  std::int64_t phase_step = 0;
  std::int64_t epoch = 0;
  std::int64_t epoch_micro_batches = 0;
  /// Length of an epoch: the counters mean nothing for data or batches of another size. 0: the data
  /// have no end.
  std::int64_t micro_batches_per_epoch = 0;
  /// Sum of the losses of the steps that no log line has told yet, and their number.
  double unlogged_loss = 0;
  std::int64_t unlogged_steps = 0;
  std::optional<double> best_metric = {};
  std::int64_t best_step = 0;
  std::int64_t evaluations_without_gain = 0;
  /// Rows of the table of epochs, and the one that is open: sums over so many steps.
  std::vector<TrainingEpoch> epochs = {};
  TrainingEpoch open_epoch = {};
  std::int64_t open_epoch_steps = 0;
  /// Steps that each parameter has taken in the optimizer.
  std::map<std::string, std::int64_t> optimizer_steps = {};
  /// The steps of the training that has ended with this state; 0 while it goes on.
  std::int64_t finished_steps = 0;
  /// Objective::setup of the training.
  nlohmann::ordered_json setup = nlohmann::ordered_json::object();
  /// The lines of log.jsonl.
  std::vector<nlohmann::ordered_json> log_history = {};
};

/// The object of trainer_state.json; the names that the Hugging Face Trainer has are its.
nlohmann::ordered_json to_json(const TrainerState& state);
/// Throws Error that names file and key.
TrainerState trainer_state_from_json(const nlohmann::ordered_json& object, const std::string& file);

/// Checkpoints are folders `checkpoint-STEP`. They are written and removed under other names, so
/// that a folder of this name is always whole.
class Checkpoints {
 public:
  explicit Checkpoints(std::filesystem::path output_dir) : output_dir_(std::move(output_dir)) {}

  std::filesystem::path folder(std::int64_t step) const;
  /// Steps of the checkpoints, ascending.
  std::vector<std::int64_t> steps() const;

  /// Writes one by `fill`, which gets the folder to write into. Throws Error, and then leaves
  /// nothing behind and names the last good checkpoint.
  void write(std::int64_t step,
             const std::function<void(const std::filesystem::path&)>& fill) const;
  /// Removes the oldest until `limit` are left, but not that of step `kept`. 0 is no limit.
  void prune(std::int64_t limit, std::int64_t kept) const;
  /// Removes all checkpoints.
  void remove_all() const;
  /// Removes what processes that were killed left half-written.
  void remove_leftovers() const;

 private:
  void remove(std::int64_t step) const;

  std::filesystem::path output_dir_;
};

}  // namespace longformer::training
