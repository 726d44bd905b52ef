#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "api/evaluation_run.h"
#include "api/model_cost.h"
#include "api/task_folder.h"
#include "api/trained_model.h"
#include "api/training_run.h"
#include "core/error.h"
#include "core/random.h"
#include "longformer/pretraining.h"
#include "tasks/epoch_order.h"
#include "tasks/masking.h"
#include "tasks/text_data.h"

namespace longformer {
namespace {

using Rows = std::vector<std::vector<std::int32_t>>;

/// Text as rows of tokens, and what reading it said.
struct PackedText {
  Rows rows;
  tasks::DataReport report;
};

PackedText packed_text(std::span<const std::string> files, const MaskedLmTraining& options,
                       const Tokenizer& tokenizer, Index row_tokens) {
  require(!files.empty(), "training text: expected at least one file, found none");
  tasks::DocumentPacker packer(
      tokenizer, {.tokens = row_tokens, .across_documents = options.masking.across_documents});
  PackedText text;
  for (const std::string& file : files) {
    tasks::read_texts(file, options.data, text.report, [&](const std::string& document) {
      EncodeOptions plain;
      plain.add_special_tokens = false;
      packer.add(tokenizer.encode(document, plain).ids, text.rows);
    });
  }
  packer.finish(text.rows);
  require(!text.rows.empty(), "{}: expected some tokens, found none in {} files", files[0],
          files.size());
  return text;
}

/// Tells what was read, and what was lost of it.
void tell(const char* name, const PackedText& text, const TrainingCallbacks& callbacks) {
  if (!callbacks.note) return;
  std::size_t tokens = 0;
  for (const auto& row : text.rows) tokens += row.size();
  callbacks.note(fmt::format("{}: {} documents, {} rows, {} tokens", name, text.report.examples,
                             text.rows.size(), tokens));
  if (text.report.skipped > 0) {
    callbacks.note(fmt::format("left out {} broken records; {}", text.report.skipped,
                               text.report.first_skipped));
  }
  if (text.report.empty > 0) {
    callbacks.note(fmt::format("{} documents are empty", text.report.empty));
  }
}

class MaskedLmObjective final : public training::Objective {
 public:
  MaskedLmObjective(const std::string& folder, const MaskedLmTraining& options, TrainedModel& model)
      : options_(options),
        model_(model),
        tokenizer_(matching_tokenizer(model.model(), folder)),
        rules_(tasks::masking_rules(tokenizer_)),
        text_(packed_text(options.train_files, options, tokenizer_, row_tokens())) {
    rules_.probability = options.masking.probability;
  }

  /// Tells what the data are. What is wrong with the validation data shall not end a training that
  /// has begun, so they are read here too.
  void tell_data(const TrainingCallbacks& callbacks) const {
    std::optional<PackedText> validation;
    if (options_.training.eval_strategy != "no") {
      const std::string& file = options_.validation_file;
      require(!file.empty(),
              "validation_file: expected text to evaluate on, as eval_strategy is {}",
              options_.training.eval_strategy);
      validation = packed_text({&file, 1}, options_, tokenizer_, row_tokens());
    }
    tell("training", text_, callbacks);
    if (validation) tell("validation", *validation, callbacks);
  }

  Index row_tokens() const {
    const Index most = model_.config().max_tokens();
    const Index wanted = options_.masking.row_tokens == 0 ? most : options_.masking.row_tokens;
    require(wanted <= most, "row length: expected at most {} tokens, found {}", most, wanted);
    return wanted;
  }
  Index micro_batches() const { return (rows() + batch_rows() - 1) / batch_rows(); }

  training::MicroBatchLoss run(const training::MicroBatch& micro) override {
    if (micro.epoch != epoch_) {
      epoch_ = micro.epoch;
      order_ = tasks::shuffled(
          rows(), random_bits(options_.training.seed, static_cast<std::uint64_t>(epoch_)));
    }
    models::BatchBuilder batch(model_.config());
    models::Targets targets;
    const Index first = micro.index * batch_rows();
    const Index end = std::min(first + batch_rows(), static_cast<Index>(order_.size()));
    for (Index i = first; i < end; ++i) {
      append(static_cast<std::size_t>(order_[static_cast<std::size_t>(i)]), batch, targets);
    }
    return model_.step(batch.finish(), targets, micro.seed);
  }

  training::Metrics evaluate() override {
    if (options_.validation_file.empty()) return {};
    EvaluateOptions options;
    options.data = options_.data;
    options.masking = options_.masking;
    options.masking.row_tokens = row_tokens();
    return longformer::evaluate(model_.model(), tokenizer_, options_.validation_file, options)
        .metrics;
  }

  std::vector<std::string> metric_names() const override {
    return longformer::metric_names(model_.model().info(), false, false);
  }

  void save(const std::filesystem::path& folder) override { model_.save(folder); }
  void load(const std::filesystem::path& folder) override { model_.load(folder); }

 private:
  Index rows() const { return static_cast<Index>(text_.rows.size()); }
  Index batch_rows() const { return options_.training.per_device_train_batch_size; }

  /// The row with some of its tokens hidden: others in each epoch.
  void append(std::size_t row, models::BatchBuilder& batch, models::Targets& targets) const {
    const std::uint64_t number =
        static_cast<std::uint64_t>(epoch_ * rows()) + static_cast<std::uint64_t>(row);
    const tasks::MaskedRow masked =
        tasks::mask_row(text_.rows[row], rules_, options_.training.seed, number);
    const std::size_t begin = targets.labels.size();
    targets.labels.resize(begin + masked.ids.size(), ops::kIgnored);
    for (std::size_t i = 0; i < masked.positions.size(); ++i) {
      targets.labels[begin + static_cast<std::size_t>(masked.positions[i])] = masked.labels[i];
    }
    batch.add({.ids = masked.ids}, "row");
  }

  const MaskedLmTraining& options_;
  TrainedModel& model_;
  Tokenizer tokenizer_;
  tasks::MaskingRules rules_;
  PackedText text_;
  std::int64_t epoch_ = -1;
  std::vector<Index> order_;
};

training::PhaseCost cost_of(const TrainedModel& model, const MaskedLmTraining& options,
                            Index row_tokens) {
  const auto n = static_cast<double>(row_tokens);
  const double forward = model_flops(model.config(), row_tokens, 0) / n +
                         masked_lm_flops(model.config(), options.masking.probability);
  const std::int64_t tokens = row_tokens * options.training.per_device_train_batch_size;
  return {.tokens_per_step = tokens * options.training.gradient_accumulation_steps,
          .flops_per_token = 3 * forward,
          .activation_bytes = activation_bytes(
              model.config(), {.tokens = tokens,
                               .dtype = model.implementation().dtype,
                               .recomputes = options.training.gradient_checkpointing,
                               .masked_lm = true})};
}

TrainedModelSetup setup_of(const std::string& folder, const MaskedLmTraining& options) {
  TrainedModelSetup setup = {.folder = folder,
                             .head = models::HeadKind::masked_lm,
                             .globals_from_local = options.copy_globals};
  const Index from = options.only_positions_from;
  require(from >= 0, "only positions from: expected 0 or more, found {}", from);
  if (from == 0) return setup;
  setup.frozen = [](const std::string& name) { return name != models::kPositionEmbeddings; };
  const models::EncoderConfig config = models::read_config(folder + "/config.json");
  require(from < config.max_tokens(), "only positions from: expected less than {}, found {}",
          config.max_tokens(), from);
  setup.first_trained_position = config.first_position() + from;
  return setup;
}

}  // namespace

TrainingResult train_masked_lm(const std::string& folder, const MaskedLmTraining& options,
                               const TrainingCallbacks& callbacks) {
  check(options.training);
  TrainedModelSetup setup = setup_of(folder, options);
  setup.note = callbacks.note;
  TrainedModel model(std::move(setup), options.training);
  MaskedLmObjective objective(folder, options, model);
  objective.tell_data(callbacks);
  training::Phase phase = training::single_phase(options.training, objective.micro_batches());
  phase.cost = cost_of(model, options, objective.row_tokens());
  return run_training(options.training, {phase}, model.parameters(), objective, callbacks);
}

}  // namespace longformer
