// Checks of TrainingOptions and their form as JSON.
#include <algorithm>
#include <cmath>
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
  fail("{}: expected {}, found '{}'", option, fmt::join(choices, ", "), value);
}

void check_least(const char* option, double value, double least) {
  require(value >= least && std::isfinite(value), "{}: expected a number of at least {}, found {}",
          option, least, value);
}

/// [0, 1), or [0, 1] where one is allowed.
void check_fraction(const char* option, double value, bool one_allowed) {
  require(value >= 0 && (value < 1 || (one_allowed && value == 1)),
          "{}: expected a number from 0 to {}1, found {}", option, one_allowed ? "" : "below ",
          value);
}

void check_lora(const TrainingOptions& options) {
  require(options.lora_rank >= 0, "lora_rank: expected a whole number of at least 1, found {}",
          options.lora_rank);
  check_least("lora_alpha", options.lora_alpha, 0);
  check_fraction("lora_dropout", options.lora_dropout, false);
  const bool is_new = options.lora_rank > 0;
  require(!is_new || options.adapter.empty(),
          "lora_rank: expected none where an adapter is trained on, found {}", options.lora_rank);
  const bool is_described =
      options.lora_alpha != 0 || !options.lora_target.empty() || options.lora_dropout != 0;
  require(options.learning_rate > 0 || (!is_new && options.adapter.empty()),
          "learning_rate: expected more than 0, as an adapter is trained, found 0");
  require(options.adapter.empty() || !is_described,
          "adapter: expected no lora_alpha, lora_target and lora_dropout beside it, as it has its "
          "own, found some");
  require(is_new || !is_described,
          "lora_rank: expected a rank beside lora_alpha, lora_target and lora_dropout, found none");
}

}  // namespace

void choose_eval_strategy(TrainingOptions& options, bool has_validation, bool data_end) {
  if (!options.eval_strategy.empty()) return;
  options.eval_strategy = !has_validation ? "no" : data_end ? "epoch" : "steps";
}

void check(const TrainingOptions& options) {
  require(!options.output_dir.empty(), "output_dir: expected a folder, found none");
  const auto least = [](const char* option, std::int64_t value, std::int64_t minimum) {
    require(value >= minimum, "{}: expected a whole number of at least {}, found {}", option,
            minimum, value);
  };
  least("per_device_train_batch_size", options.per_device_train_batch_size, 1);
  least("gradient_accumulation_steps", options.gradient_accumulation_steps, 1);
  least("max_steps", options.max_steps, -1);
  least("warmup_steps", options.warmup_steps, 0);
  least("logging_steps", options.logging_steps, 1);
  least("eval_steps", options.eval_steps, 1);
  least("save_steps", options.save_steps, 1);
  least("save_total_limit", options.save_total_limit, 0);
  least("early_stopping_patience", options.early_stopping_patience, 0);
  check_threads(options.threads);
  check_least("num_train_epochs", options.num_train_epochs, 0);
  check_least("learning_rate", options.learning_rate, 0);
  check_least("weight_decay", options.weight_decay, 0);
  check_least("adam_epsilon", options.adam_epsilon, 0);
  check_least("max_grad_norm", options.max_grad_norm, 0);
  check_least("lr_power", options.lr_power, 0);
  check_least("lr_end", options.lr_end, 0);
  check_least("early_stopping_threshold", options.early_stopping_threshold, 0);
  check_fraction("adam_beta1", options.adam_beta1, false);
  check_fraction("adam_beta2", options.adam_beta2, false);
  check_fraction("warmup_ratio", options.warmup_ratio, true);
  check_fraction("label_smoothing_factor", options.label_smoothing_factor, false);
  check_lora(options);
  check_choice("optim", options.optim, {"adamw", "adafactor"});
  check_choice("lr_scheduler_type", options.lr_scheduler_type,
               {"linear", "constant", "cosine", "polynomial", "constant_with_warmup"});
  if (!options.eval_strategy.empty()) {
    check_choice("eval_strategy", options.eval_strategy, {"no", "steps", "epoch"});
  }
  check_choice("save_strategy", options.save_strategy, {"no", "steps", "epoch"});
  check_choice("dtype", options.dtype, {"fp32", "bf16"});
  const bool needs_evaluation =
      options.load_best_model_at_end || options.early_stopping_patience > 0;
  const bool evaluates = !options.eval_strategy.empty() && options.eval_strategy != "no";
  require(!needs_evaluation || evaluates,
          "eval_strategy: expected steps or epoch, which load_best_model_at_end and "
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
