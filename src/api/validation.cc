#include "api/validation.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/evaluation.h"
#include "core/error.h"
#include "engine/training/loss_pass.h"

namespace longformer {

bool Validation::has_metrics(const FinetuneOptions& options, const models::EncoderConfig& config,
                             const engine::DataSet& data) {
  if (data.metric_names().empty()) return false;
  return !config.decoder || options.predict_with_generate;
}

std::vector<std::string> Validation::metric_names(const FinetuneOptions& options,
                                                  const models::EncoderConfig& config,
                                                  const engine::DataSet& data) {
  std::vector<std::string> names = {"loss"};
  if (has_metrics(options, config, data)) {
    std::ranges::copy(data.metric_names(), std::back_inserter(names));
  }
  return names;
}

EvaluateOptions Validation::options() {
  const FinetuneOptions& given = setup_.options;
  EvaluateOptions options;
  options.task = given.task;
  options.data = given.data;
  options.too_long = given.too_long;
  options.stride = given.stride;
  options.global_attention = given.global_attention;
  options.threshold = given.threshold;
  options.batch_tokens = given.batch_tokens;
  options.generation.max_source_tokens = given.max_source_tokens;
  const Model model = setup_.model.model();
  if (setup_.model.config().decoder) {
    if (!generator_) generator_.emplace(TextGenerator::of(model, setup_.folder));
    options.generator = &*generator_;
    options.generation.options = given.generation;
  }
  if (setup_.model.implementation().task->makes_vectors()) {
    if (!embedder_) embedder_.emplace(Embedder::of(model, setup_.folder));
    options.embedder = &*embedder_;
    options.max_text_tokens = setup_.max_text_tokens;
    options.task = "embedding";
  }
  return options;
}

training::Metrics Validation::run() {
  const FinetuneOptions& given = setup_.options;
  LossPass pass(setup_.model, setup_.rows, given.training.per_device_train_batch_size);
  // A set that kept no records is asked of the model.
  LossPass* known = setup_.rows.records().empty() ? nullptr : &pass;
  Evaluation found;
  if (has_metrics(given, setup_.model.config(), setup_.data)) {
    found = evaluate_set(setup_.model.model(), setup_.tokenizer, given.validation_path, setup_.data,
                         options(), known);
  }
  training::Metrics metrics = {{"loss", pass.mean_loss()}};
  std::ranges::move(found.metrics, std::back_inserter(metrics));
  // Seen with BART-large and LED-large (docs/spec/training.md#c5), and where weights were drawn, at
  // first.
  if (const std::int64_t texts = found.counts["repeating_texts"]; texts > 0 && setup_.note) {
    setup_.note(fmt::format(
        "{} of {} texts are one token again and again: a model that has just been drawn begins so; "
        "one that wrote texts before has forgotten how, and wants a lower learning rate, more "
        "warm-up steps, or forced_bos_token_id in generation_config.json",
        texts, found.examples));
  }
  return metrics;
}

}  // namespace longformer
