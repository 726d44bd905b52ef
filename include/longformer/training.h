// Common parts of all verbs that train: options named as those of the Hugging Face Trainer
// (docs/training.md), the plan before the first step, progress, and the result.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "longformer/options.h"
#include "longformer/ranks.h"

namespace longformer {

/// Option `--learning-rate` is field `learning_rate`, and so on. 0 means none where a number is
/// optional.
struct TrainingOptions {
  /// Checkpoints, logs and the final model go there.
  std::string output_dir = {};
  /// Train anew where output_dir holds a former training, whose checkpoints are removed.
  bool overwrite_output_dir = false;
  /// "last", or the folder of a checkpoint; empty starts anew.
  std::string resume_from_checkpoint = {};

  std::int64_t per_device_train_batch_size = 8;
  /// Micro-batches of a step.
  std::int64_t gradient_accumulation_steps = 1;
  double num_train_epochs = 3;
  /// Replaces num_train_epochs when positive.
  std::int64_t max_steps = 0;

  /// "adamw", "adafactor" or "adagrad".
  std::string optim = "adamw";
  double learning_rate = 5e-5;
  /// Not of biases and norms.
  double weight_decay = 0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  /// Adafactor chooses its own learning rates, in proportion to the size of the weights.
  bool adafactor_relative_step = false;
  /// Adagrad: the step of a tensor whose gradient has a larger norm is scaled down by as much; 0
  /// leaves it.
  double adagrad_clip = 0;
  /// Gradients of a larger global norm are scaled down to it; 0 leaves them.
  double max_grad_norm = 1;

  /// "linear", "constant", "cosine" or "polynomial", each after a linear warm-up.
  std::string lr_scheduler_type = "linear";
  std::int64_t warmup_steps = 0;
  /// Fraction of the steps; counts where warmup_steps is 0.
  double warmup_ratio = 0;
  /// Exponent of the polynomial.
  double lr_power = 3;
  double lr_end = 0;

  std::int64_t logging_steps = 10;
  /// "no", "steps" or "epoch" (at the end of each, and of the training), which needs data that end;
  /// empty: see choose_eval_strategy.
  std::string eval_strategy = {};
  std::int64_t eval_steps = 500;
  std::string save_strategy = "steps";
  std::int64_t save_steps = 500;
  /// Older checkpoints are removed, but never the best one; 0 keeps all.
  std::int64_t save_total_limit = 2;
  /// early_stopping_patience implies it.
  bool load_best_model_at_end = false;
  /// A metric of the evaluation, with or without "eval_"; empty takes the first one of the task
  /// when fine-tuning, else the loss.
  std::string metric_for_best_model = {};
  /// Absent: all metrics but loss, perplexity, bpc, mse and mae are better when greater.
  std::optional<bool> greater_is_better = {};
  /// Stop after so many evaluations in a row without a better metric; 0 never.
  std::int64_t early_stopping_patience = 0;
  double early_stopping_threshold = 0;

  std::uint64_t seed = 42;
  /// "fp32" or "bf16"; weights and optimizer stay fp32.
  std::string dtype = "fp32";
  bool gradient_checkpointing = false;
  /// LoRA (arXiv 2106.09685): not 0 keeps encoder and decoder as they are and trains what B·A of so
  /// many rows adds to some of their layers, beside the head. Adds alpha ÷ rank of it (0: twice the
  /// rank), to layers whose names in `transformers` end so (comma-separated, or "all-linear";
  /// empty: queries and values), which read their input with dropout. output_dir gets an adapter as
  /// peft writes it in place of a model.
  std::int64_t lora_rank = 0;
  double lora_alpha = 0;
  std::string lora_target = {};
  double lora_dropout = 0;
  /// The folder of an adapter that is trained on, in place of a new one.
  std::string adapter = {};
  /// For fine-tuning: documents of similar length in a micro-batch.
  bool group_by_length = false;
  /// Part of the probability that goes to all classes alike; where the loss is a cross-entropy with
  /// one right class.
  double label_smoothing_factor = 0;
  /// 0 takes what CPU affinity and the cgroup quota allow.
  std::int64_t threads = 0;

  bool operator==(const TrainingOptions&) const = default;
};

/// All options, with how they are called, what they do, and what they may be.
OptionFields fields(TrainingOptions& options);

/// Throws Error that names the option, what was expected and what was found.
void check(const TrainingOptions& options);

/// Fills in an empty eval_strategy: with validation data "epoch", or "steps" where the data have no
/// end, else "no".
void choose_eval_strategy(TrainingOptions& options, bool has_validation, bool data_end = true);

/// The object of training_args.json, one key per option.
std::string to_json(const TrainingOptions& options);
/// Reads it back; absent keys take their defaults. `name` stands for the text in messages. Throws
/// Error for unknown keys and values of another type.
TrainingOptions training_options_from_json(const std::string& text, const std::string& name);

/// Plan of a training: its steps and needs; known before its first step.
struct TrainingPlan {
  std::int64_t trained_parameters = 0;
  std::int64_t frozen_parameters = 0;
  std::int64_t steps = 0;
  /// Steps that a resumed training has behind it.
  std::int64_t steps_done = 0;
  std::int64_t tokens_per_step = 0;
  /// Predicted peak memory, and what it is made of.
  std::int64_t weight_bytes = 0;
  std::int64_t gradient_bytes = 0;
  std::int64_t optimizer_bytes = 0;
  std::int64_t activation_bytes = 0;
  /// Data and program: what is in memory before the first step.
  std::int64_t data_bytes = 0;
  std::int64_t peak_bytes = 0;
  /// Peak disk use of output_dir, in addition to files that already exist: the final model and the
  /// checkpoints kept at once. Free bytes of its file system; absent if unknown.
  std::int64_t disk_bytes = 0;
  std::optional<std::int64_t> free_disk_bytes = {};
  /// Predicted time of all steps that are left; 0 when unknown.
  double seconds = 0;
};

struct TrainingProgress {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  /// Absent where the length of an epoch is unknown.
  std::optional<double> epoch = {};
  std::string phase = {};
  /// Mean over the steps since the last report.
  double loss = 0;
  double learning_rate = 0;
  /// Before clipping.
  double gradient_norm = 0;
  double tokens_per_second = 0;
  /// Useful FLOPs per second ÷ GEMM rate; 0 when unknown.
  double fraction_of_bound = 0;
  double seconds_left = 0;
  /// Whether a log line was written for this step.
  bool logged = false;
  /// Metrics of an evaluation after this step.
  std::vector<std::pair<std::string, double>> metrics = {};
};

/// All may be empty. They are called from the training thread.
struct TrainingCallbacks {
  std::function<void(const TrainingPlan&)> plan = {};
  /// After every step.
  std::function<void(const TrainingProgress&)> progress = {};
  /// One line about something that the user should know.
  std::function<void(const std::string&)> note = {};
  /// Asked after every step: true writes a checkpoint and ends the training, of all ranks.
  std::function<bool()> stop = {};
  /// The processes that train together, called from the training thread; null: this one alone. Must
  /// outlive the training.
  const Ranks* ranks = nullptr;
};

/// Result of an evaluation.
struct EvaluationPoint {
  std::int64_t step = 0;
  std::vector<std::pair<std::string, double>> metrics = {};
};

/// A row of the table of epochs: the steps since the row before, up to the end of an epoch or an
/// evaluation.
struct TrainingEpoch {
  /// Its last step.
  std::int64_t step = 0;
  /// Absent where the data have no end.
  std::optional<double> epoch = {};
  /// Mean over its steps.
  double loss = 0;
  /// Time of its steps and of the evaluation.
  double seconds = 0;
  /// Metrics of the evaluation behind the last step; empty: there was none.
  std::vector<std::pair<std::string, double>> metrics = {};
};

struct TrainingResult {
  std::int64_t steps = 0;
  /// Ended by the stop callback: output_dir has a checkpoint, but no final model.
  bool interrupted = false;
  bool stopped_early = false;
  /// Mean of the last report; absent where no step was left to do.
  std::optional<double> loss = {};
  /// The best value of `metric`, the metric for the best model, and the step that it was found
  /// after; absent, empty and 0 without an evaluation.
  std::optional<double> best_metric = {};
  std::string metric = {};
  std::int64_t best_step = 0;
  /// The step whose model was written, and the metrics of its evaluation; empty: there was none.
  std::int64_t model_step = 0;
  std::vector<std::pair<std::string, double>> metrics = {};
  /// The checkpoint that was written last, and the best one; empty where there is none.
  std::string last_checkpoint = {};
  std::string best_checkpoint = {};
  /// All of the training, those before it was resumed too.
  std::vector<EvaluationPoint> evaluations = {};
  /// All rows of the table of epochs, likewise.
  std::vector<TrainingEpoch> epochs = {};
};

}  // namespace longformer
