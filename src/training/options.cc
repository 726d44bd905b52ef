// Checks of TrainingOptions and their form as JSON.
#include <algorithm>
#include <cmath>
#include <concepts>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/threads.h"
#include "formats/json.h"
#include "formats/unused_keys.h"
#include "longformer/training.h"

namespace longformer {
namespace {

using Json = nlohmann::ordered_json;

/// Calls visit(name, field) for every option.
template <typename Options, typename Visit>
void for_each_option(Options& options, Visit&& visit) {
  visit("output_dir", options.output_dir);
  visit("overwrite_output_dir", options.overwrite_output_dir);
  visit("resume_from_checkpoint", options.resume_from_checkpoint);
  visit("per_device_train_batch_size", options.per_device_train_batch_size);
  visit("gradient_accumulation_steps", options.gradient_accumulation_steps);
  visit("num_train_epochs", options.num_train_epochs);
  visit("max_steps", options.max_steps);
  visit("optim", options.optim);
  visit("learning_rate", options.learning_rate);
  visit("weight_decay", options.weight_decay);
  visit("adam_beta1", options.adam_beta1);
  visit("adam_beta2", options.adam_beta2);
  visit("adam_epsilon", options.adam_epsilon);
  visit("adafactor_relative_step", options.adafactor_relative_step);
  visit("max_grad_norm", options.max_grad_norm);
  visit("lr_scheduler_type", options.lr_scheduler_type);
  visit("warmup_steps", options.warmup_steps);
  visit("warmup_ratio", options.warmup_ratio);
  visit("lr_power", options.lr_power);
  visit("lr_end", options.lr_end);
  visit("logging_steps", options.logging_steps);
  visit("eval_strategy", options.eval_strategy);
  visit("eval_steps", options.eval_steps);
  visit("save_strategy", options.save_strategy);
  visit("save_steps", options.save_steps);
  visit("save_total_limit", options.save_total_limit);
  visit("load_best_model_at_end", options.load_best_model_at_end);
  visit("metric_for_best_model", options.metric_for_best_model);
  visit("greater_is_better", options.greater_is_better);
  visit("early_stopping_patience", options.early_stopping_patience);
  visit("early_stopping_threshold", options.early_stopping_threshold);
  visit("seed", options.seed);
  visit("dtype", options.dtype);
  visit("gradient_checkpointing", options.gradient_checkpointing);
  visit("lora_rank", options.lora_rank);
  visit("lora_alpha", options.lora_alpha);
  visit("lora_target", options.lora_target);
  visit("lora_dropout", options.lora_dropout);
  visit("adapter", options.adapter);
  visit("group_by_length", options.group_by_length);
  visit("label_smoothing_factor", options.label_smoothing_factor);
  visit("threads", options.threads);
}

/// Reads one option where the object has it.
class Reader {
 public:
  Reader(const Json& object, std::string name) : object_(object), name_(std::move(name)) {}

  template <typename Value>
  void operator()(const char* key, Value& value) const {
    const auto found = object_.find(key);
    if (found == object_.end() || found->is_null()) return;
    require(fits<Value>(*found), "{}: {}: expected {}, found {}", name_, key, kind<Value>(),
            formats::shown(*found));
    if constexpr (std::same_as<Value, std::optional<bool>>) {
      value = found->get<bool>();
    } else {
      value = found->get<Value>();
    }
  }

 private:
  template <typename Value>
  static bool fits(const Json& json) {
    if constexpr (std::same_as<Value, std::string>) return json.is_string();
    if constexpr (std::same_as<Value, double>) return formats::is_finite_number(json);
    if constexpr (std::same_as<Value, std::uint64_t>) return json.is_number_unsigned();
    if constexpr (std::same_as<Value, std::int64_t>) {
      return json.is_number_integer() &&
             (!json.is_number_unsigned() || std::in_range<Value>(json.get<std::uint64_t>()));
    }
    return json.is_boolean();
  }
  template <typename Value>
  static const char* kind() {
    if constexpr (std::same_as<Value, std::string>) return "a string";
    if constexpr (std::same_as<Value, double>) return "a number";
    if constexpr (std::integral<Value> && !std::same_as<Value, bool>) return "a whole number";
    return "true or false";
  }

  const Json& object_;
  std::string name_;
};

void check_choice(const char* option, const std::string& value,
                  const std::vector<std::string_view>& choices) {
  for (const std::string_view choice : choices) {
    if (value == choice) return;
  }
  fail(OptionName(option), "expected {}, found '{}'", fmt::join(choices, ", "), value);
}

void check_least(const char* option, double value, double least) {
  require(value >= least && std::isfinite(value), OptionName(option),
          "expected a number of at least {}, found {}", least, value);
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
  static_cast<void>(checked_threads(options.threads));
  check_least("training.num_train_epochs", options.num_train_epochs, 0);
  check_least("training.learning_rate", options.learning_rate, 0);
  check_least("training.weight_decay", options.weight_decay, 0);
  check_least("training.adam_epsilon", options.adam_epsilon, 0);
  check_least("training.max_grad_norm", options.max_grad_norm, 0);
  check_least("training.lr_power", options.lr_power, 0);
  check_least("training.lr_end", options.lr_end, 0);
  check_least("training.early_stopping_threshold", options.early_stopping_threshold, 0);
  check_fraction("training.adam_beta1", options.adam_beta1, false);
  check_fraction("training.adam_beta2", options.adam_beta2, false);
  check_fraction("training.warmup_ratio", options.warmup_ratio, true);
  check_fraction("training.label_smoothing_factor", options.label_smoothing_factor, false);
  check_lora(options);
  check_choice("training.optim", options.optim, {"adamw", "adafactor"});
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
  Json object = Json::object();
  for_each_option(options, [&](const char* key, const auto& value) {
    if constexpr (std::same_as<std::remove_cvref_t<decltype(value)>, std::optional<bool>>) {
      object[key] = value ? Json(*value) : Json();
    } else {
      object[key] = value;
    }
  });
  return object.dump(2) + "\n";
}

TrainingOptions training_options_from_json(const std::string& text, const std::string& name) {
  const Json object = formats::parse_json(text, name);
  const formats::ConfigReader file(object, name);
  TrainingOptions options;
  for_each_option(options, [&](const char* key, const auto&) { file.has(key); });
  formats::refuse_unused_keys(file);
  for_each_option(options, Reader(object, name));
  return options;
}

}  // namespace longformer
