#include <memory>
#include <utility>

#include "api/evaluation.h"
#include "api/finetune_card.h"
#include "core/error.h"
#include "core/words.h"
#include "engine/run/model_cost.h"
#include "engine/run/task_folder.h"
#include "engine/training/adapter_training.h"
#include "engine/training/task_training.h"
#include "engine/training/training_run.h"
#include "longformer/evaluation.h"
#include "longformer/finetuning.h"
#include "tasks/masked_lm/masked_lm.h"

namespace longformer {
namespace {

/// Tells what was read, and what was lost of it.
void tell(const char* name, const engine::TrainingSet& rows, const TrainingCallbacks& callbacks) {
  if (!callbacks.note) return;
  const engine::CollationReport& report = rows.report();
  callbacks.note(fmt::format("{}: {}, {}, {}", name, counted(report.documents, "document"),
                             counted(report.rows, "row"), counted(report.tokens, "token")));
  for (const std::string& text : report.data.notes) callbacks.note(text);
  if (report.data.skipped > 0) {
    callbacks.note(fmt::format("left out {}; {}", counted(report.data.skipped, "broken record"),
                               report.data.first_skipped()));
  }
  if (report.data.empty > 0) {
    callbacks.note(counted(report.data.empty, "document is empty", "documents are empty"));
  }
}

training::PhaseCost cost_of(const TrainedModel& model, const MaskedLmTraining& options) {
  const Index row_tokens = tasks::masked_row_tokens(model.config(), options.masking);
  const auto n = static_cast<double>(row_tokens);
  const double forward = model_flops(model.config(), row_tokens, 0) / n +
                         masked_lm_flops(model.config(), options.masking.probability);
  const std::int64_t tokens = row_tokens * options.training.per_device_train_batch_size;
  return {.tokens_per_step = tokens * options.training.gradient_accumulation_steps,
          .flops_per_token = passes_of_step(options.training) * forward,
          .activation_bytes = activation_bytes(
              model.config(), {.tokens = tokens,
                               .dtype = model.implementation().dtype,
                               .recomputes = options.training.gradient_checkpointing,
                               .masked_lm = true})};
}

TrainedModelSetup setup_of(const std::string& folder, const MaskedLmTraining& options) {
  TrainedModelSetup setup = {.folder = folder,
                             .task = &tasks::masked_lm(),
                             .random_blocks = options.random_blocks,
                             .globals_from_local = options.copy_globals};
  const Index from = options.only_positions_from;
  require(!trains_adapter(options.training) || from == 0,
          OptionName("only_positions_from", "only positions from"),
          "expected none with an adapter, found {}", from);
  require(from >= 0, OptionName("only_positions_from", "only positions from"),
          "expected 0 or more, found {}", from);
  if (from == 0) return setup;
  setup.frozen = [](const std::string& name) { return name != models::kPositionEmbeddings; };
  const models::EncoderConfig config = models::read_config(folder + "/config.json");
  require(from < config.max_tokens(), OptionName("only_positions_from", "only positions from"),
          "expected less than {}, found {}", config.max_tokens(), from);
  setup.first_trained_position = config.first_position() + from;
  return setup;
}

/// Evaluates on the text of the validation file, which was read before the first step.
TaskEvaluation evaluation_of(const MaskedLmTraining& options, const TrainedModel& model,
                             const Tokenizer& tokenizer, const engine::DataSet& text) {
  TaskEvaluation evaluation = {.metric_names = text.metric_names()};
  if (options.validation_file.empty()) return evaluation;
  evaluation.run = [&] {
    EvaluateOptions used;
    used.data = options.data;
    used.masking = options.masking;
    return evaluate_set(model.model(), tokenizer, options.validation_file, text, used).metrics;
  };
  return evaluation;
}

}  // namespace

TrainingResult train_masked_lm(const std::string& folder, const MaskedLmTraining& given,
                               const TrainingCallbacks& callbacks) {
  MaskedLmTraining options = given;
  options.data = engine::with_inputs(options.data);
  choose_eval_strategy(options.training, !options.validation_file.empty());
  check(options.training);
  TrainedModelSetup setup = setup_of(folder, options);
  setup.note = callbacks.note;
  TrainedModel model(std::move(setup), options.training);
  const Tokenizer tokenizer = matching_tokenizer(model.model(), folder);
  const auto rows_of = [&](const engine::DataSet& text) {
    return text.collate(
        {.config = model.config(), .tokenizer = tokenizer, .reading = {}, .data = options.data});
  };
  const auto rows =
      rows_of(*tasks::masked_text(options.train_files, options.data, options.masking));
  const auto validation_text =
      tasks::masked_text({options.validation_file}, options.data, options.masking);
  std::unique_ptr<engine::TrainingSet> validation;
  if (options.training.eval_strategy != "no") {
    require(!options.validation_file.empty(), OptionName("validation_file"),
            "expected text to evaluate on, as eval_strategy is {}", options.training.eval_strategy);
    // A fault in these data must be found before the training begins.
    validation = rows_of(*validation_text);
  }
  tell("training", *rows, callbacks);
  if (validation) tell("validation", *validation, callbacks);
  TaskObjective objective(options.training, *rows, model,
                          evaluation_of(options, model, tokenizer, *validation_text));
  objective.set_card([&](const TrainingResult& result) {
    return model_card(folder, std::string(model.config().family->model_type), options,
                      rows->report(), result);
  });
  training::Phase phase =
      training::single_phase(options.training, objective.micro_batches(), rank_count(callbacks));
  phase.cost = cost_of(model, options);
  return run_training(options.training, {phase}, model.parameters(), objective, callbacks);
}

}  // namespace longformer
