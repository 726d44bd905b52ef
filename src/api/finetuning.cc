#include "longformer/finetuning.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "api/finetune_card.h"
#include "api/finetune_split.h"
#include "api/validation.h"
#include "core/error.h"
#include "engine/frame/table.h"
#include "engine/run/document_stream.h"
#include "engine/run/model_cost.h"
#include "engine/run/task_folder.h"
#include "engine/training/adapter_training.h"
#include "engine/training/task_training.h"
#include "engine/training/training_run.h"
#include "formats/weights.h"
#include "longformer/checkpoint.h"
#include "tasks/classification/classification.h"
#include "tasks/embedding/embedding_teacher.h"
#include "tasks/embedding/sentence_modules.h"

namespace longformer {
namespace {

/// The option that the longest document comes from.
const char* length_option(const FinetuneOptions& options) {
  return options.max_length > 0 ? "max_length" : "max_source_length";
}

/// The head of the folder, when it is that of the task.
bool head_fits(const models::EncoderConfig& config, const engine::Task& task) {
  return engine::task_named(config) == &task;
}

std::unique_ptr<engine::DataSet> read_training_data(const models::EncoderConfig& config,
                                                    const engine::Task& task,
                                                    const FinetuneOptions& options) {
  require(!options.new_head || task.has_labels(), OptionName("new_head"),
          "expected a task with labels, classify or ner, found {}", task.names().verb);
  engine::KnownLabels known;
  if (head_fits(config, task.of_head()) && task.has_labels() && !options.new_head) {
    known = {engine::LabelSet(config.labels), config.problem_type};
  }
  auto data = task.read(options.train_path, options.data, known);
  tasks::check_classes(*data);
  return data;
}

/// Setup with the labels of the model that is trained.
std::unique_ptr<engine::DataSet> read_validation_data(const models::EncoderConfig& config,
                                                      const engine::Task& task,
                                                      const engine::DataSet& training,
                                                      const FinetuneOptions& options) {
  engine::KnownLabels known;
  if (task.has_labels()) {
    known = {engine::LabelSet(config.labels), config.problem_type, training.label_kind()};
  }
  try {
    return task.read(options.validation_path, options.data, known);
  } catch (const Error& error) {
    // The labels may be those of the training data: another head would not help.
    ErrorParts parts = error.parts();
    std::erase(parts.remedies, Remedy::new_head);
    throw Error(std::move(parts));
  }
}

const engine::Task& task_of(const models::EncoderConfig& config, const FinetuneOptions& options) {
  if (!options.task.empty()) return engine::task_of_verb(options.task);
  const engine::Task* task = engine::task_named(config);
  require(task != nullptr && !task->names().verb.empty(), OptionName("task"),
          "expected a folder with a head, or one of {}; found {}", engine::verb_names(),
          config.architecture.empty() ? "neither" : config.architecture);
  return *task;
}

/// The marks of the task that the tokenizer of the folder does not have.
models::AddedTokens added_tokens(const std::string& folder, const engine::Task& task) {
  models::AddedTokens added;
  if (task.marks().empty()) return added;
  const Tokenizer before = Tokenizer::load(folder);
  const Tokenizer after = Tokenizer::load(folder, task.marks());
  for (const std::string& mark : task.marks()) {
    if (!before.id(mark)) added.emplace_back(mark, after.id(mark).value());
  }
  return added;
}

/// Folder where training begins, and tensors that are read there but not trained.
struct Beginning {
  const std::string& folder;
  const engine::Task& task;
  /// Settings of a model of vectors.
  std::optional<tasks::SentenceModules> modules = std::nullopt;
  std::shared_ptr<const Embedder> teacher = nullptr;

  Beginning(const std::string& path, const engine::Task& trained) : folder(path), task(trained) {
    if (task.makes_vectors()) modules = tasks::read_sentence_modules(folder);
  }
  void load_teacher_of(const FinetuneOptions& options, Index width) {
    const std::string& path = options.data.embedding.teacher;
    if (!modules || path.empty()) return;
    teacher = load_teacher(
        find_model(path), width,
        {.dtype = options.training.dtype, .threads = static_cast<int>(options.training.threads)});
  }
  bool lowercases() const { return modules && modules->lowercase; }
  /// The longest document in tokens. Throws Error for more than the model takes.
  Index max_tokens(const models::EncoderConfig& config, const FinetuneOptions& options) const {
    const Index most = task.longest_document(config);
    require(options.max_source_tokens >= 0 && options.max_source_tokens <= most,
            OptionName(length_option(options)), "expected at most the model's {} tokens, found {}",
            most, options.max_source_tokens);
    if (options.max_source_tokens > 0) return options.max_source_tokens;
    return modules ? std::min(most, modules->max_length.value_or(most)) : most;
  }
};

/// A data set as rows for the model that is trained.
class Rows {
 public:
  /// `path` is that of the data, for messages.
  Rows(const FinetuneOptions& options, const Beginning& begin, const TrainedModel& model,
       const Tokenizer& tokenizer, const std::string& path)
      : teacher_(begin.teacher),
        setup_(
            {.config = model.config(),
             .tokenizer = tokenizer,
             .reading = engine::with_globals(
                 model.config(), begin.task, path,
                 {.max_tokens = begin.max_tokens(model.config(), options),
                  .length_option = length_option(options),
                  .too_long = options.too_long,
                  .stride = options.stride,
                  .global_positions = global_positions(model.model(), options.global_attention)}),
             .label_all_pieces = options.label_all_pieces,
             .max_target_tokens = options.max_target_tokens,
             .data = options.data,
             .folder = begin.folder}),
        path_(path) {}

  /// They will be evaluated.
  void keep_readings() { setup_.keeps_readings = true; }

  std::unique_ptr<engine::TrainingSet> of(const engine::DataSet& data) const {
    auto rows = data.collate(setup_);
    require(rows->size() > 0, "{}: expected examples, found none", path_);
    if (!teacher_) return rows;
    return std::make_unique<TaughtSet>(std::move(rows), teacher_);
  }

 private:
  std::shared_ptr<const Embedder> teacher_;
  engine::CollationSetup setup_;
  std::string path_;
};

/// Tokens of a text that the plan reckons with; 0 for models that write none.
Index text_tokens(const models::EncoderConfig& config, const FinetuneOptions& options) {
  if (!config.decoder) return 0;
  constexpr Index kUsual = 256;
  const Index most = config.decoder->max_tokens();
  return std::min(options.max_target_tokens > 0 ? options.max_target_tokens : kUsual, most);
}

training::PhaseCost cost_of(const TrainedModel& model, const engine::Task& task,
                            const FinetuneOptions& options, std::span<const Index> lengths) {
  double tokens = 0, flops = 0;
  const Index batch = options.training.per_device_train_batch_size;
  const bool in_parts = options.mini_batch_size > 0 && options.mini_batch_size < batch;
  // A batch in parts is run forward once more.
  const double passes = passes_of_step(options.training) + (in_parts ? 1 : 0);
  const Index together = in_parts ? options.mini_batch_size : batch;
  Index longest = 0;
  const Index text = text_tokens(model.config(), options);
  // Documents of like length cost alike: a sample tells.
  const std::size_t step = std::max<std::size_t>(1, lengths.size() / 64);
  for (std::size_t i = 0; i < lengths.size(); i += step) {
    tokens += static_cast<double>(lengths[i]);
    flops += passes * (model_flops(model.config(), lengths[i], 1) +
                       task.head_cost(model.config(), lengths[i]).flops);
    if (text > 0) flops += passes * decoder_flops(model.config(), lengths[i], text);
  }
  for (const Index length : lengths) longest = std::max(longest, length);
  const double mean =
      tokens / std::ceil(static_cast<double>(lengths.size()) / static_cast<double>(step));
  const auto per_step = static_cast<double>(batch * options.training.gradient_accumulation_steps);
  return {.tokens_per_step = static_cast<std::int64_t>(mean * per_step),
          .flops_per_token = tokens > 0 ? flops / tokens : 0,
          .activation_bytes =
              activation_bytes(model.config(),
                               {.tokens = longest * together,
                                .text_tokens = text * together,
                                .dtype = model.implementation().dtype,
                                .recomputes = options.training.gradient_checkpointing}) +
              task.head_cost(model.config(), longest).training_bytes};
}

/// Throws Error for options that do not suit each other, the task, or the data.
void check_options(const FinetuneOptions& options, const engine::DataSet& data) {
  const TrainingOptions& training = options.training;
  require(training.eval_strategy == "no" || !options.validation_path.empty(),
          OptionName("validation_file"),
          "expected examples to evaluate on, as eval_strategy is {}, found none",
          training.eval_strategy);
  require(options.head_learning_rate >= 0 && std::isfinite(options.head_learning_rate),
          OptionName("head_learning_rate"), "expected a number of at least 0, found {}",
          options.head_learning_rate);
  require(options.threshold >= 0 && options.threshold <= 1, OptionName("threshold"),
          "expected a probability from 0 to 1, found {}", options.threshold);
  require(training.per_device_train_batch_size >= data.least_batch(),
          OptionName("training.per_device_train_batch_size"),
          "expected at least {} examples, of which the texts are each "
          "other's wrong answers, found {}",
          data.least_batch(), training.per_device_train_batch_size);
  require(data.has_one_class() || training.label_smoothing_factor == 0,
          OptionName("training.label_smoothing_factor"),
          "expected 0 where there is not one right class, found {}",
          training.label_smoothing_factor);
}

/// The learning rates of encoder and head; an encoder that would not move is frozen.
void set_rates(FinetuneOptions& options, TrainedModelSetup& setup) {
  double& rate = options.training.learning_rate;
  const double head_rate = options.head_learning_rate;
  if (head_rate == 0) return;
  if (rate == 0) {
    setup.frozen = [](const std::string& name) { return models::is_of_encoder(name); };
    rate = head_rate;
  }
  setup.head_rate_scale = head_rate / rate;
}

FinetuneData summary_of(const engine::Task& task, const engine::DataSet& data,
                        const engine::TrainingSet& rows, const TrainedModel& model) {
  const engine::CollationReport& report = rows.report();
  std::vector<std::string> added_tokens;
  for (const auto& [token, id] : model.added_tokens()) added_tokens.push_back(token);
  Counts counts;
  counts[engine::kSkipped] = report.data.skipped;
  counts[engine::kEmpty] = report.data.empty;
  for (const auto& [counter, number] : report.counts.all()) counts[*counter] = number;
  return {.task = std::string(task.names().verb),
          .labels = data.labels(),
          .problem_type = data.problem_type(),
          .examples = report.data.examples,
          .first_skipped = report.data.first_skipped(),
          .notes = data.report().notes,
          .rows = report.rows,
          .tokens = report.tokens,
          .label_counts = data.class_counts().counts,
          .counts = std::move(counts),
          .drawn = model.drawn(),
          .added_tokens = std::move(added_tokens)};
}

}  // namespace

std::vector<CountNote> notes_of(const FinetuneData& data) {
  std::vector<CountNote> notes;
  for (const std::string& text : data.notes) notes.push_back({.text = text});
  std::ranges::move(
      notes_of(
          data.counts, &Counter::training,
          {.examples = data.examples, .tokens = data.tokens, .first_skipped = data.first_skipped}),
      std::back_inserter(notes));
  return notes;
}

namespace {

/// The options as they are used. Throws Error for those that contradict each other.
FinetuneOptions used_options(const FinetuneOptions& options) {
  FinetuneOptions used = options;
  used.data = engine::with_inputs(used.data);
  check_split(used);
  require(used.folds == 0 || used.fold > 0, OptionName("fold"),
          "expected the number of the fold to train, found none");
  check_no_folds(used);
  choose_eval_strategy(used.training, used.has_validation());
  check(used.training);
  if (used.splits()) used.validation_path = used.train_path;
  if (used.max_length > 0) {
    require(used.max_source_tokens == 0 || used.max_source_tokens == used.max_length,
            OptionName("max_length"), "expected none beside max_source_length {}, found {}",
            used.max_source_tokens, used.max_length);
    used.max_source_tokens = used.max_length;
  }
  return used;
}

/// The model, and the weights that are not trained.
TrainedModelSetup setup_of(const Beginning& beginning, const models::EncoderConfig& config,
                           FinetuneOptions& used, const engine::DataSet& data) {
  const engine::Task& task = beginning.task;
  TrainedModelSetup setup = {.folder = beginning.folder,
                             .task = &task,
                             .labels = data.labels(),
                             .problem_type = data.problem_type(),
                             .draws_head = used.new_head,
                             .settings = head_fits(config, task) && !used.new_head
                                             ? engine::Json::object()
                                             : data.settings(config),
                             .shares_global_projections = used.shared_global_projections,
                             .random_blocks = used.random_blocks,
                             .added_tokens = added_tokens(beginning.folder, task),
                             .class_weights = weights_of_classes(used, data)};
  setup.settings.update(data.encoder_settings(config));
  if (beginning.modules) {
    setup.max_text_tokens = beginning.max_tokens(config, used);
    if (data.has_passages()) setup.passage_context = "document";
  }
  set_rates(used, setup);
  return setup;
}

/// Split of the data and weights of the classes: facts that decide a training, and the first line
/// of its log.
void set_facts(const FinetuneOptions& options, const DataSplit& split, const engine::Json& weights,
               TaskObjective& objective) {
  engine::Json beginning = engine::Json::object();
  if (!split.facts.empty()) {
    beginning["split"] = split.facts;
    objective.set_file(kSplitFile, split.file);
  }
  if (!weights.empty()) beginning["class_weights"] = weights;
  objective.set_facts({{"split of the data", split.facts}, {"class weights", weights}},
                      std::move(beginning));
  objective.set_part_size(options.mini_batch_size);
}

/// A step of one example has nothing that its class could weigh against.
void note_lone_examples(const FinetuneOptions& options, const engine::ClassWeights& weights,
                        const TrainingCallbacks& callbacks) {
  const TrainingOptions& training = options.training;
  const auto examples = training.per_device_train_batch_size *
                        training.gradient_accumulation_steps * rank_count(callbacks);
  if (examples > 1 || weights.empty() || !weights.other.empty() || !callbacks.note) return;
  callbacks.note(
      "class_weights: a step of one example is the mean of one loss, which weights do not change: "
      "more gradient_accumulation_steps give them others to weigh against");
}

}  // namespace

TrainingResult finetune(const std::string& folder, const FinetuneOptions& options,
                        const FinetuneCallbacks& callbacks) {
  FinetuneOptions used = used_options(options);
  const models::EncoderConfig config =
      models::read_config(models::config_file(folder, options.training.adapter));
  const engine::Task& named = task_of(config, options);
  const engine::Task& task = named.of_head();
  task.check_too_long(options.too_long);
  tasks::check_problem_type(options.data, task);
  if (options.global_attention) task.check_global_rule(options.global_attention->rule());
  const auto data = read_training_data(config, named, used);
  DataSplit split = split_data(used, *data);
  if (!split.note.empty() && callbacks.training.note) callbacks.training.note(split.note);
  if (split.validation) tasks::check_classes(*data);
  check_options(used, *data);
  Beginning beginning(folder, task);
  require(used.mini_batch_size == 0 || task.makes_vectors(), OptionName("mini_batch_size"),
          "expected a training of vectors of texts, found one of {}", task.names().verb);
  TrainedModelSetup setup = setup_of(beginning, config, used, *data);
  setup.note = callbacks.training.note;
  const engine::Json weights = to_json(setup.class_weights, data->labels());
  note_lone_examples(used, setup.class_weights, callbacks.training);
  TrainedModel model(std::move(setup), used.training);
  beginning.load_teacher_of(used, config.last_size());
  const Tokenizer tokenizer =
      matching_tokenizer(model.model(), folder, task.marks(), beginning.lowercases());
  const auto rows = Rows(used, beginning, model, tokenizer, used.train_path).of(*data);
  // The validation data are read before training begins: what is wrong with them shall not end it.
  std::unique_ptr<engine::DataSet> validation_data;
  std::unique_ptr<engine::TrainingSet> validation_rows;
  std::optional<Validation> validation;
  if (used.training.eval_strategy != "no") {
    validation_data = split.validation ? std::move(split.validation)
                                       : read_validation_data(model.config(), named, *data, used);
    Rows made(used, beginning, model, tokenizer, used.validation_path);
    if (Validation::has_metrics(used, config, *validation_data)) made.keep_readings();
    validation_rows = made.of(*validation_data);
    validation.emplace(Validation::Setup{.options = used,
                                         .folder = folder,
                                         .data = *validation_data,
                                         .rows = *validation_rows,
                                         .model = model,
                                         .tokenizer = tokenizer,
                                         .max_text_tokens = beginning.max_tokens(config, used),
                                         .note = callbacks.training.note});
  }
  TaskEvaluation evaluation = {.metric_names = Validation::metric_names(
                                   used, config, validation_data ? *validation_data : *data)};
  if (used.training.metric_for_best_model.empty()) {
    used.training.metric_for_best_model =
        evaluation.metric_names[std::min<std::size_t>(1, evaluation.metric_names.size() - 1)];
  }
  if (validation) evaluation.run = [&validation] { return validation->run(); };
  CardFacts facts = {.folder = folder,
                     .model_type = std::string(config.family->model_type),
                     .is_drawn = !formats::has_weights(folder),
                     .training = summary_of(named, *data, *rows, model)};
  if (validation) facts.validation = summary_of(named, *validation_data, *validation_rows, model);
  if (callbacks.data) callbacks.data(facts.training);
  if (callbacks.validation && facts.validation) callbacks.validation(*facts.validation);
  TaskObjective objective(used.training, *rows, model, std::move(evaluation));
  set_facts(used, split, weights, objective);
  objective.set_card(
      [&](const TrainingResult& result) { return model_card(facts, options, named, result); });
  training::Phase phase = training::single_phase(used.training, objective.micro_batches(),
                                                 rank_count(callbacks.training));
  phase.cost = cost_of(model, task, used, rows->lengths());
  return run_training(used.training, {phase}, model.parameters(), objective, callbacks.training);
}

}  // namespace longformer
