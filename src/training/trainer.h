// The training loop: accumulation, clipping, steps, phases, evaluation, checkpoints. It knows
// neither model nor task; those stand behind an Objective.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "formats/folder_lock.h"
#include "longformer/training.h"
#include "training/checkpoints.h"
#include "training/log.h"
#include "training/optimizer.h"
#include "training/parameters.h"
#include "training/phase.h"
#include "training/schedule.h"
#include "training/team.h"

namespace longformer::training {

/// The one phase of an unstaged training: its steps are max_steps, or follow from the epochs, which
/// so many ranks read together. Throws Error when neither gives a number.
Phase single_phase(const TrainingOptions& options, std::int64_t micro_batches_per_epoch,
                   int ranks = 1);

/// A micro-batch by its counters: with the seed of the training they say which data it has.
struct MicroBatch {
  std::int64_t phase = 0;
  /// Steps before it since the beginning of the training.
  std::int64_t step = 0;
  /// Within the phase: the epoch, and the place in it.
  std::int64_t epoch = 0;
  std::int64_t index = 0;
  /// Its number since the beginning of the training.
  std::int64_t position = 0;
  /// Seed of everything random in this micro-batch; no two share it.
  std::uint64_t seed = 0;
};

struct MicroBatchLoss {
  /// Σ losses of what is predicted, and the weight by which the sum is divided: the number of
  /// predictions, or 1 where `loss` is a mean already.
  double loss = 0;
  double weight = 1;
  std::int64_t tokens = 0;
};

using Metrics = std::vector<std::pair<std::string, double>>;

/// A model with its data. A step moves the parameters by Σ gradients ÷ Σ weights over the
/// micro-batches of all ranks.
class Objective {
 public:
  Objective() = default;
  virtual ~Objective() = default;
  Objective(const Objective&) = delete;
  Objective& operator=(const Objective&) = delete;

  /// Before the first step of a phase, and when a training is resumed within it.
  virtual void begin_phase(const Phase& /*phase*/, std::int64_t /*number*/) {}
  /// Before the first micro-batch of a step.
  virtual void begin_step(std::int64_t /*step*/) {}
  /// Forward and backward: adds the gradient of MicroBatchLoss::loss to those of the parameters.
  virtual MicroBatchLoss run(const MicroBatch& batch) = 0;
  /// Metrics by names without "eval_"; must leave everything that training needs as it was.
  virtual Metrics evaluate() { return {}; }
  /// Other figures of the last evaluation, for the log alone.
  virtual Metrics evaluation_details() { return {}; }
  /// The names of the metrics that it gives; none where they are unknown before.
  virtual std::vector<std::string> metric_names() const { return {}; }
  /// Settings, by name, that decide the model and the order of its data in addition to the options
  /// of the training. A resumed training must have equal ones.
  virtual nlohmann::ordered_json setup() const { return nlohmann::ordered_json::object(); }
  /// Writes the model, as a Hugging Face folder in fp32, and any state of its own into a folder
  /// that exists.
  virtual void save(const std::filesystem::path& folder) = 0;
  /// Takes up in place what `save` wrote: all parameters have the same bits again.
  virtual void load(const std::filesystem::path& folder) = 0;
  /// The first line of log.jsonl: how the data are split and weighted; an empty object: no line.
  virtual nlohmann::ordered_json beginning() const { return nlohmann::ordered_json::object(); }
  /// The model card of a training that has ended, in Markdown; empty: none.
  virtual std::string card(const TrainingResult& result) const {
    static_cast<void>(result);
    return {};
  }
  /// Further state that a resumed training needs: only checkpoints have it.
  virtual void save_progress(const std::filesystem::path& /*folder*/) {}
  virtual void load_progress(const std::filesystem::path& /*folder*/) {}
};

struct TrainerSetup {
  TrainingOptions options = {};
  std::vector<Phase> phases = {};
  /// GEMM rate of the machine in FLOP/s, and the fraction of it that a step is expected to reach;
  /// for the plan and the progress. 0 where unknown.
  double gemm_flops = 0;
  double expected_fraction = 0.6;
  /// The processes that train together; null: one. Must outlive the trainer.
  const Ranks* ranks = nullptr;
  /// Bytes that the file system of the output has left; absent: asks the file system.
  std::optional<std::int64_t> free_disk_bytes = {};
};

/// Parameters and memory of a plan: weights, gradients and moments beside the activations, without
/// data and program.
TrainingPlan memory_plan(const ParameterSet& parameters, const Optimizer& optimizer,
                         std::int64_t activation_bytes);

class Trainer {
 public:
  /// Parameters and objective must outlive it. Throws Error for options that are wrong.
  Trainer(TrainerSetup setup, ParameterSet& parameters, Objective& objective);

  /// Trains to the end, or until the stop callback holds, and writes the final model into
  /// output_dir. Throws Error when the loss or a gradient is not finite and when the disk refuses;
  /// the checkpoints written so far stay. Throws Error when a rank does not answer any more; one of
  /// the others has written a checkpoint.
  TrainingResult run(const TrainingCallbacks& callbacks);

 private:
  struct StepReport {
    double loss = 0;
    double learning_rate = 0;
    double gradient_norm = 0;
    std::int64_t tokens = 0;
    double seconds = 0;
    bool ends_epoch = false;
  };
  /// Sums over all ranks.
  struct StepSum {
    MicroBatchLoss loss;
    std::int64_t micro_batches = 0;
  };

  /// Fills in the metric for the best model, or throws Error when there is none of its name.
  void set_metric();
  void open_output();
  /// Bytes in memory besides the weights, before the first step.
  std::int64_t data_bytes() const;
  void resume();
  /// Throws Error when a rank has another model, other data or other counters than rank 0.
  void check_ranks() const;
  /// Whether the training has ended and its model is in the output folder.
  bool is_done() const;
  void report_result();
  void write_beginning();
  TrainingPlan plan(std::int64_t data_bytes) const;
  bool trains_adapter() const;
  void plan_disk(TrainingPlan& plan) const;
  /// Throws Error when the disk has too little room, and notes what will hardly be meant.
  void check_plan(const TrainingPlan& plan) const;
  std::int64_t total_steps() const;
  double work_left() const;

  const Phase& phase() const { return setup_.phases[static_cast<std::size_t>(state_.phase)]; }
  double learning_rate() const;
  /// Whether the training goes on.
  bool run_phase();
  void run_phases();
  StepReport step();
  StepSum run_micro_batches(std::int64_t rounds);
  /// Rank 0 judges for all; whoever stops, stops all. Whether any rank stops.
  bool agree(bool stops);
  void check_finite(double value, const char* what) const;
  /// Throws Error where steps have made weights that are not finite.
  void check_weights() const;

  TrainingProgress report(const StepReport& step);
  void write_log(const TrainingProgress& progress);
  void log(nlohmann::ordered_json line);
  bool is_due(const std::string& strategy, std::int64_t every, bool ends_epoch) const;
  /// A failure leaves a checkpoint.
  void evaluate(TrainingProgress& progress);
  void judge(TrainingProgress& progress);
  /// Rank 0 writes.
  void save_checkpoint();
  void write_checkpoint();
  /// Leaves a checkpoint of the last whole step and throws Error.
  [[noreturn]] void end_without(const RankLost& lost);
  void finish();
  /// Says in the last checkpoint that the model of the whole training has been written.
  void mark_finished();
  std::string last_checkpoint() const;
  /// Checkpoint to resume from, for messages.
  std::string last_good() const;
  void note(const std::string& text) const;

  TrainerSetup setup_;
  ParameterSet& parameters_;
  Objective& objective_;
  Team team_;
  int threads_;
  std::unique_ptr<Optimizer> optimizer_;
  Checkpoints checkpoints_;
  TrainingCallbacks callbacks_;
  /// Lock of the output folder during the life of this object.
  std::optional<formats::FolderLock> lock_;
  /// A checkpoint whose progress has not been taken up yet.
  std::filesystem::path resumed_from_;
  TrainerState state_;
  /// Parameters that were not finite before: rows of tables perhaps that no text has.
  std::set<std::string> bad_before_;
  std::unique_ptr<Log> log_;
  TrainingResult result_;
  /// Time and work of the steps of this run, without evaluation and saving.
  double seconds_ = 0;
  double work_ = 0;
  double unlogged_seconds_ = 0;
  std::int64_t unlogged_tokens_ = 0;
};

}  // namespace longformer::training
