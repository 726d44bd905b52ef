// The options of all trainings, described.
#include "core/option_fields.h"

#include <string>

#include "longformer/options.h"
#include "longformer/training.h"

namespace longformer {
namespace {

OptionFields run_fields(TrainingOptions& options) {
  const std::string group = "Training";
  return {
      {.name = "output_dir",
       .value = &options.output_dir,
       .help = "where the final model, checkpoints and logs go",
       .group = group,
       .type = "FOLDER",
       .letter = "o"},
      {.name = "overwrite_output_dir",
       .value = &options.overwrite_output_dir,
       .help = "replace an earlier training in this folder",
       .group = group},
      {.name = "resume_from_checkpoint",
       .value = &options.resume_from_checkpoint,
       .help = "go on from a checkpoint as if the training had never stopped; with 'last' from the "
               "newest one, or from the beginning where there is none",
       .group = group,
       .type = "PATH|last"},
      {.name = "per_device_train_batch_size",
       .value = &options.per_device_train_batch_size,
       .help = "examples, or segments, of a micro-batch ({})",
       .group = group,
       .least = 1},
      {.name = "gradient_accumulation_steps",
       .value = &options.gradient_accumulation_steps,
       .help = "micro-batches of a step ({})",
       .group = group,
       .least = 1},
      {.name = "num_train_epochs",
       .value = &options.num_train_epochs,
       .help = "passes over the data ({})",
       .group = group},
      {.name = "max_steps",
       .value = &options.max_steps,
       .help = "number of steps; overrides the epochs if above 0 ({})",
       .group = group,
       .least = -1},
      {.name = "seed",
       .value = &options.seed,
       .help = "seed of all random numbers; the same seed and number of threads give the same bits "
               "({})",
       .group = group},
      {.name = "dtype",
       .value = &options.dtype,
       .help = "type of the computation, fp32 or bf16; weights and optimizer stay fp32 ({})",
       .group = group,
       .choices = {"fp32", "bf16"},
       .shorthand = "bf16"},
      {.name = "gradient_checkpointing",
       .value = &options.gradient_checkpointing,
       .help = "compute layers again in the backward pass instead of keeping them: a third more "
               "time, much less memory",
       .group = group},
      {.name = "group_by_length",
       .value = &options.group_by_length,
       .help = "put documents of similar length into a batch",
       .group = group},
  };
}

OptionFields adapter_fields(TrainingOptions& options) {
  const std::string group = "Adapters";
  return {
      {.name = "lora_rank",
       .value = &options.lora_rank,
       .help = "train a LoRA adapter of this rank and the head, and keep the model as it is; the "
               "output is an adapter as peft writes it (none)",
       .group = group,
       .least = 1,
       .most = 1 << 16},
      {.name = "lora_alpha",
       .value = &options.lora_alpha,
       .help = "alpha: the output of the adapter is multiplied by alpha / rank (twice the rank)",
       .group = group},
      {.name = "lora_target",
       .value = &options.lora_target,
       .help =
           "ends of layer names as in transformers, comma-separated, or all-linear (queries and "
           "values)",
       .group = group,
       .type = "LIST"},
      {.name = "lora_dropout",
       .value = &options.lora_dropout,
       .help = "dropout rate of the input of the adapter ({})",
       .group = group,
       .most = 1,
       .is_below_most = true},
      {.name = "adapter",
       .value = &options.adapter,
       .help = "train on an adapter of MODEL instead of a new one (none)",
       .group = group,
       .type = "FOLDER"},
  };
}

OptionFields optimizer_fields(TrainingOptions& options) {
  const std::string group = "Optimizer";
  return {
      {.name = "optim",
       .value = &options.optim,
       .help = "what changes the weights: adamw, adafactor, adagrad ({})",
       .group = group,
       .choices = {"adamw", "adafactor", "adagrad"}},
      {.name = "learning_rate",
       .value = &options.learning_rate,
       .help = "largest learning rate ({})",
       .group = group},
      {.name = "weight_decay",
       .value = &options.weight_decay,
       .help = "decay of all weights except biases and norms ({})",
       .group = group},
      {.name = "adam_beta1",
       .value = &options.adam_beta1,
       .help = "decay of the mean of the gradient ({})",
       .group = group,
       .most = 1,
       .is_below_most = true},
      {.name = "adam_beta2",
       .value = &options.adam_beta2,
       .help = "decay of the mean of its square ({})",
       .group = group,
       .most = 1,
       .is_below_most = true},
      {.name = "adam_epsilon",
       .value = &options.adam_epsilon,
       .help = "epsilon in the denominator of Adam ({})",
       .group = group},
      {.name = "adafactor_relative_step",
       .value = &options.adafactor_relative_step,
       .help = "Adafactor chooses learning rates itself, relative to the size of the weights",
       .group = group},
      {.name = "adagrad_clip",
       .value = &options.adagrad_clip,
       .help = "Adagrad: scale the step of a tensor whose gradient has a larger norm down by as "
               "much; 0: off ({})",
       .group = group},
      {.name = "max_grad_norm",
       .value = &options.max_grad_norm,
       .help = "scale gradients of a larger norm down to it; 0: off ({})",
       .group = group},
      {.name = "label_smoothing_factor",
       .value = &options.label_smoothing_factor,
       .help = "part of the probability that goes to all labels alike ({})",
       .group = group,
       .most = 1,
       .is_below_most = true},
      {.name = "lr_scheduler_type",
       .value = &options.lr_scheduler_type,
       .help = "how the learning rate falls after the warm-up: linear, constant, cosine, "
               "polynomial, constant_with_warmup ({})",
       .group = group,
       .choices = {"linear", "constant", "cosine", "polynomial", "constant_with_warmup"}},
      {.name = "warmup_steps",
       .value = &options.warmup_steps,
       .help = "warm-up: steps in which the learning rate rises from 0 ({})",
       .group = group},
      {.name = "warmup_ratio",
       .value = &options.warmup_ratio,
       .help = "warm-up as a share of all steps ({})",
       .group = group,
       .most = 1},
      {.name = "lr_power",
       .value = &options.lr_power,
       .help = "exponent of the polynomial ({})",
       .group = group},
      {.name = "lr_end",
       .value = &options.lr_end,
       .help = "learning rate at the end of the polynomial ({})",
       .group = group},
  };
}

OptionFields evaluation_fields(TrainingOptions& options) {
  const std::string group = "Logs, evaluation and checkpoints";
  const std::vector<std::string> strategies = {"no", "steps", "epoch"};
  return {
      {.name = "logging_steps",
       .value = &options.logging_steps,
       .help = "steps from one line of log.jsonl to the next; \"0.14 of the bound\" is the share "
               "of the speed that this machine's matrix multiplication would allow ({})",
       .group = group,
       .least = 1},
      {.name = "eval_strategy",
       .value = &options.eval_strategy,
       .help = "when to evaluate: no, every --eval-steps steps, or epoch, at the end of each and "
               "of the training (epoch with --validation-file, or steps where the data have no "
               "end; no without)",
       .group = group,
       .choices = strategies},
      {.name = "eval_steps",
       .value = &options.eval_steps,
       .help = "steps between evaluations ({})",
       .group = group,
       .least = 1},
      {.name = "save_strategy",
       .value = &options.save_strategy,
       .help = "when to write a checkpoint: no, steps, epoch ({})",
       .group = group,
       .choices = strategies},
      {.name = "save_steps",
       .value = &options.save_steps,
       .help = "steps between checkpoints ({})",
       .group = group,
       .least = 1},
      {.name = "save_total_limit",
       .value = &options.save_total_limit,
       .help = "keep so many checkpoints, in addition to the best one; 0 keeps all ({})",
       .group = group},
      {.name = "load_best_model_at_end",
       .value = &options.load_best_model_at_end,
       .help =
           "the final model is that of the best evaluation; --early-stopping-patience implies it",
       .group = group},
      {.name = "metric_for_best_model",
       .value = &options.metric_for_best_model,
       .help = "a metric of the evaluation, or loss (the first metric of the task, of a language "
               "model the loss)",
       .group = group,
       .type = "NAME"},
      {.name = "greater_is_better",
       .value = &options.greater_is_better,
       .help = "true or false (false for loss, perplexity, bpc, mse and mae, else true)",
       .group = group,
       .type = "BOOL"},
      {.name = "early_stopping_patience",
       .value = &options.early_stopping_patience,
       .help = "stop after so many evaluations without gain; 0: off ({})",
       .group = group},
      {.name = "early_stopping_threshold",
       .value = &options.early_stopping_threshold,
       .help = "smallest improvement that counts as a gain ({})",
       .group = group},
      {.name = "threads",
       .value = &options.threads,
       .help = "0 takes what CPU affinity and the cgroup quota allow ({})",
       .most = kMostThreads},
  };
}

}  // namespace

OptionFields fields(TrainingOptions& options) {
  OptionFields all = run_fields(options);
  append(all, adapter_fields(options));
  append(all, optimizer_fields(options));
  append(all, evaluation_fields(options));
  return all;
}

}  // namespace longformer
