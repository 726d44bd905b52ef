// Checks of TrainingOptions and their form as JSON.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/threads.h"
#include "formats/json.h"
#include "formats/option_json.h"
#include "longformer/training.h"

namespace longformer {
namespace {

void check_choice(const char* option, const std::string& value,
                  const std::vector<std::string_view>& choices) {
  for (const std::string_view choice : choices) {
    if (value == choice) return;
  }
  fail(OptionName(option), "expected {}, found '{}'", fmt::join(choices, ", "), value);
}

/// Trainings compute in fp32.
void check_least(const char* option, double value, double least,
                 double most = std::numeric_limits<float>::max()) {
  require(value >= least && value <= most, OptionName(option),
          "expected a number from {} to {:.3g}, found {}", least, most, value);
}

/// [0, 1), or [0, 1] where one is allowed.
void check_fraction(const char* option, double value, bool one_allowed) {
  require(value >= 0 && (value < 1 || (one_allowed && value == 1)), OptionName(option),
          "expected a number from 0 to {}1, found {}", one_allowed ? "" : "below ", value);
}

void check_lora(const TrainingOptions& options) {
  require(options.lora_rank >= 0, OptionName("training.lora_rank"),
          "expected a whole number of at least 1, found {}", options.lora_rank);
  check_least("training.lora_alpha", options.lora_alpha, 0);
  check_fraction("training.lora_dropout", options.lora_dropout, false);
  const bool is_new = options.lora_rank > 0;
  require(!is_new || options.adapter.empty(), OptionName("training.lora_rank"),
          "expected none where an adapter is trained on, found {}", options.lora_rank);
  const bool is_described =
      options.lora_alpha != 0 || !options.lora_target.empty() || options.lora_dropout != 0;
  require(options.learning_rate > 0 || (!is_new && options.adapter.empty()),
          OptionName("training.learning_rate"),
          "expected more than 0, as an adapter is trained, found 0");
  require(options.adapter.empty() || !is_described, OptionName("training.adapter"),
          "expected no lora_alpha, lora_target and lora_dropout beside it, as it has its "
          "own, found some");
  require(is_new || !is_described, OptionName("training.lora_rank"),
          "expected a rank beside lora_alpha, lora_target and lora_dropout, found none");
}

}  // namespace

void choose_eval_strategy(TrainingOptions& options, bool has_validation, bool data_end) {
  if (!options.eval_strategy.empty()) return;
  options.eval_strategy = !has_validation ? "no" : data_end ? "epoch" : "steps";
}

void check(const TrainingOptions& options) {
  require(!options.output_dir.empty(), OptionName("training.output_dir"),
          "expected a folder, found none");
  const auto least = [](const char* option, std::int64_t value, std::int64_t minimum) {
    require(value >= minimum, OptionName(option),
            "expected a whole number of at least {}, found {}", minimum, value);
  };
  least("training.per_device_train_batch_size", options.per_device_train_batch_size, 1);
  least("training.gradient_accumulation_steps", options.gradient_accumulation_steps, 1);
  least("training.max_steps", options.max_steps, -1);
  least("training.warmup_steps", options.warmup_steps, 0);
  least("training.logging_steps", options.logging_steps, 1);
  least("training.eval_steps", options.eval_steps, 1);
  least("training.save_steps", options.save_steps, 1);
  least("training.save_total_limit", options.save_total_limit, 0);
  least("training.early_stopping_patience", options.early_stopping_patience, 0);
  check_threads(options.threads);
  check_least("training.num_train_epochs", options.num_train_epochs, 0, 1e9);
  check_least("training.learning_rate", options.learning_rate, 0);
  check_least("training.weight_decay", options.weight_decay, 0);
  check_least("training.adam_epsilon", options.adam_epsilon, 0);
  check_least("training.max_grad_norm", options.max_grad_norm, 0);
  check_least("training.adagrad_clip", options.adagrad_clip, 0);
  require(options.adagrad_clip == 0 || options.optim == "adagrad",
          OptionName("training.adagrad_clip"), "expected 0 with the optimizer {}, found {}",
          options.optim, options.adagrad_clip);
  check_least("training.lr_power", options.lr_power, 0);
  check_least("training.lr_end", options.lr_end, 0);
  check_least("training.early_stopping_threshold", options.early_stopping_threshold, 0);
  check_fraction("training.adam_beta1", options.adam_beta1, false);
  check_fraction("training.adam_beta2", options.adam_beta2, false);
  check_fraction("training.warmup_ratio", options.warmup_ratio, true);
  check_fraction("training.label_smoothing_factor", options.label_smoothing_factor, false);
  check_lora(options);
  check_choice("training.optim", options.optim, {"adamw", "adafactor", "adagrad"});
  check_choice("training.lr_scheduler_type", options.lr_scheduler_type,
               {"linear", "constant", "cosine", "polynomial", "constant_with_warmup"});
  if (!options.eval_strategy.empty()) {
    check_choice("training.eval_strategy", options.eval_strategy, {"no", "steps", "epoch"});
  }
  check_choice("training.save_strategy", options.save_strategy, {"no", "steps", "epoch"});
  check_choice("training.dtype", options.dtype, {"fp32", "bf16"});
  const bool needs_evaluation =
      options.load_best_model_at_end || options.early_stopping_patience > 0;
  const bool evaluates = !options.eval_strategy.empty() && options.eval_strategy != "no";
  require(!needs_evaluation || evaluates, OptionName("training.eval_strategy"),
          "expected steps or epoch, which load_best_model_at_end and "
          "early_stopping_patience need, found 'no'");
}

std::string to_json(const TrainingOptions& options) {
  TrainingOptions copy = options;
  return formats::json_of(fields(copy)).dump(2) + "\n";
}

TrainingOptions training_options_from_json(const std::string& text, const std::string& name) {
  TrainingOptions options;
  formats::read_options(fields(options), formats::parse_json(text, name), name);
  return options;
}

}  // namespace longformer
