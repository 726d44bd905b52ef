#include "training_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "longformer/error.h"
#include "usage.h"

namespace longformer::cli {

namespace {

/// Adds options of one heading, with the value that each has before as its default.
class Group {
 public:
  Group(CLI::App& verb, std::string name) : verb_(verb), name_(std::move(name)) {}

  CLI::Option* number(const std::string& name, std::int64_t& value, std::int64_t least,
                      const std::string& text) {
    return grouped(add_number(verb_, name, value, {.least = least}, with_default(text, value)));
  }
  CLI::Option* real(const std::string& name, double& value, double most, const std::string& text) {
    CLI::Option* option = verb_.add_option(name, value, with_default(text, value));
    return grouped(option->check(number_up_to(most))->type_name("NUMBER"));
  }
  CLI::Option* real(const std::string& name, double& value, const std::string& text) {
    return real(name, value, std::numeric_limits<double>::infinity(), text);
  }
  CLI::Option* choice(const std::string& name, std::string& value,
                      const std::vector<std::string>& choices, const std::string& text) {
    const std::string all = fmt::format("{}: {}", text, fmt::join(choices, ", "));
    return grouped(add_choice(verb_, name, value, choices, with_default(all, value)));
  }
  CLI::Option* text(const std::string& name, std::string& value, const std::string& type,
                    const std::string& text) {
    return grouped(verb_.add_option(name, value, text)->type_name(type));
  }
  CLI::Option* flag(const std::string& name, bool& value, const std::string& text) {
    return grouped(verb_.add_flag(name, value, text));
  }
  CLI::Option* grouped(CLI::Option* option) { return option->group(name_); }

 private:
  template <typename Value>
  static std::string with_default(const std::string& text, const Value& value) {
    return fmt::format("{} ({})", text, value);
  }

  CLI::App& verb_;
  std::string name_;
};

void add_run(CLI::App& verb, TrainingOptions& options) {
  Group group(verb, "Training");
  group
      .text("--output-dir", options.output_dir, "FOLDER",
            "where the final model, checkpoints and logs go")
      ->required();
  group.flag("--overwrite-output-dir", options.overwrite_output_dir,
             "replace a former training in it");
  group.text("--resume-from-checkpoint", options.resume_from_checkpoint, "PATH|last",
             "go on from a checkpoint as if the training had never stopped; with 'last' from the "
             "newest one, or from the beginning where there is none");
  group.number("--per-device-train-batch-size", options.per_device_train_batch_size, 1,
               "documents of a micro-batch");
  group.number("--gradient-accumulation-steps", options.gradient_accumulation_steps, 1,
               "micro-batches of a step");
  group.real("--num-train-epochs", options.num_train_epochs, "passes over the data");
  group.number("--max-steps", options.max_steps, -1, "steps, instead of epochs, when positive");
  group.grouped(verb.add_option_function<std::uint64_t>(
                        "--seed", [&options](const std::uint64_t& seed) { options.seed = seed; },
                        fmt::format("of all that is random; the same seed and number of threads "
                                    "give the same bits ({})",
                                    options.seed))
                    ->type_name("N"));
  group.choice("--dtype", options.dtype, {"fp32", "bf16"},
               "what is computed in; weights and optimizer stay fp32");
  group.grouped(verb.add_flag_callback(
      "--bf16", [&options] { options.dtype = "bf16"; }, "--dtype bf16"));
  group.flag(
      "--gradient-checkpointing", options.gradient_checkpointing,
      "compute layers again in the backward pass instead of keeping them: a third more time, "
      "much less memory");
}

void add_lora(CLI::App& verb, TrainingOptions& options) {
  Group group(verb, "Adapters");
  group.grouped(add_number(verb, "--lora-rank", options.lora_rank, {.least = 1, .most = 1 << 16},
                           "train a LoRA adapter of this rank and the head, and keep the model as "
                           "it is; the output is an adapter as peft writes it (none)"));
  group.grouped(verb.add_option("--lora-alpha", options.lora_alpha,
                                "what it adds is multiplied with this and divided by the rank "
                                "(twice the rank)")
                    ->check(number_up_to(std::numeric_limits<double>::infinity()))
                    ->type_name("NUMBER"));
  group.text("--lora-target", options.lora_target, "LIST",
             "layers whose names in transformers end so, comma-separated, or all-linear (queries "
             "and values)");
  group.real("--lora-dropout", options.lora_dropout, 1, "of what the adapter reads");
  group.text("--adapter", options.adapter, "FOLDER",
             "train on an adapter of MODEL instead of a new one (none)");
}

void add_optimizer(CLI::App& verb, TrainingOptions& options) {
  Group group(verb, "Optimizer");
  group.choice("--optim", options.optim, {"adamw", "adafactor"}, "what changes the weights");
  group.real("--learning-rate", options.learning_rate, "largest learning rate");
  group.real("--weight-decay", options.weight_decay, "of all weights but biases and norms");
  group.real("--adam-beta1", options.adam_beta1, 1, "decay of the mean of the gradient");
  group.real("--adam-beta2", options.adam_beta2, 1, "decay of the mean of its square");
  group.real("--adam-epsilon", options.adam_epsilon, "added to the root of the latter");
  group.flag("--adafactor-relative-step", options.adafactor_relative_step,
             "Adafactor chooses learning rates itself, relative to the size of the weights");
  group.real("--max-grad-norm", options.max_grad_norm,
             "scale gradients of a larger norm down to it; 0 does not");
  group.real("--label-smoothing-factor", options.label_smoothing_factor, 1,
             "part of the probability that goes to all labels alike");
  group.choice("--lr-scheduler-type", options.lr_scheduler_type,
               {"linear", "constant", "cosine", "polynomial", "constant_with_warmup"},
               "how the learning rate falls after the warm-up");
  group.number("--warmup-steps", options.warmup_steps, 0, "steps in which it rises from 0");
  group.real("--warmup-ratio", options.warmup_ratio, 1, "the same as a part of all steps");
  group.real("--lr-power", options.lr_power, "exponent of the polynomial");
  group.real("--lr-end", options.lr_end, "where the polynomial ends");
}

void add_evaluation(CLI::App& verb, TrainingOptions& options) {
  Group group(verb, "Logs, evaluation and checkpoints");
  group.number(
      "--logging-steps", options.logging_steps, 1,
      "steps from one line of log.jsonl to the next; \"0.14 of the bound\" is the share of "
      "the speed that this machine's matrix multiplication would allow");
  group.grouped(
      add_choice(verb, "--eval-strategy", options.eval_strategy, {"no", "steps", "epoch"},
                 "when to evaluate: no, every --eval-steps steps, or epoch, at the end of "
                 "each and of the training (epoch with --validation-file, or steps where "
                 "the data have no end; no without)"));
  group.number("--eval-steps", options.eval_steps, 1, "steps between evaluations");
  group.choice("--save-strategy", options.save_strategy, {"no", "steps", "epoch"},
               "when to write a checkpoint");
  group.number("--save-steps", options.save_steps, 1, "steps between checkpoints");
  group.number("--save-total-limit", options.save_total_limit, 0,
               "keep so many checkpoints, beside the best one; 0 keeps all");
  group.flag("--load-best-model-at-end", options.load_best_model_at_end,
             "the final model is that of the best evaluation");
  group.text(
      "--metric-for-best-model", options.metric_for_best_model, "NAME",
      "a metric of the evaluation, or loss (the first metric of the task, of a language model "
      "the loss)");
  group.grouped(verb.add_option_function<bool>(
                        "--greater-is-better",
                        [&options](const bool& greater) { options.greater_is_better = greater; },
                        "true or false (false for loss, perplexity, bpc, mse and mae, else true)")
                    ->type_name("BOOL"));
  group.number("--early-stopping-patience", options.early_stopping_patience, 0,
               "stop after so many evaluations without gain; 0 does not");
  group.real("--early-stopping-threshold", options.early_stopping_threshold,
             "what counts as a gain");
}

}  // namespace

void add_training(CLI::App& verb, TrainingOptions& options) {
  add_run(verb, options);
  add_lora(verb, options);
  add_optimizer(verb, options);
  add_evaluation(verb, options);
  add_threads(verb, options.threads);
}

void check_training(TrainingOptions options, bool has_validation) {
  choose_eval_strategy(options, has_validation);
  try {
    check(options);
  } catch (const Error& error) {
    throw UsageError(flag_of(error.option()), error.reason());
  }
}

}  // namespace longformer::cli
