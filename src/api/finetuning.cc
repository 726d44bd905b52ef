#include "longformer/finetuning.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
#include <utility>
#include <variant>

#include "api/document_stream.h"
#include "api/evaluation_run.h"
#include "api/model_cost.h"
#include "api/task_folder.h"
#include "api/trained_model.h"
#include "api/training_run.h"
#include "core/error.h"
#include "core/random.h"
#include "formats/json.h"
#include "tasks/candidates.h"
#include "tasks/choice_data.h"
#include "tasks/classification_data.h"
#include "tasks/epoch_order.h"
#include "tasks/question_data.h"
#include "tasks/tagging_data.h"
#include "tasks/training_batch.h"

namespace longformer {
namespace {

using models::HeadKind;

struct Task {
  const char* name;
  HeadKind head;
  /// The metric that tells the best model.
  const char* metric;
};
constexpr std::array<Task, 5> kTasks = {{
    {"classify", HeadKind::sequence_classification, "accuracy"},
    {"ner", HeadKind::token_classification, "f1"},
    {"qa", HeadKind::question_answering, "f1"},
    {"choose", HeadKind::multiple_choice, "accuracy"},
    {"candidates", HeadKind::candidate_scoring, "accuracy"},
}};

/// The data set as it was read; labels that the data fix.
struct Source {
  std::variant<tasks::ClassificationData, tasks::TaggingData, tasks::QuestionData,
               tasks::ChoiceData>
      data;
  std::vector<std::string> labels;
  std::string problem_type;
  /// Questions without an answer are right when they point to the first token.
  bool has_answerable = false, has_unanswerable = false;

  const tasks::DataReport& report() const {
    return std::visit([](const auto& read) -> const tasks::DataReport& { return read.report; },
                      data);
  }
};

/// The head of the folder, when it is that of the task.
bool head_fits(const models::EncoderConfig& config, HeadKind head) {
  return config.architecture.ends_with(models::class_ending(head));
}

Source read_source(const models::EncoderConfig& config, const Task& task, const std::string& path,
                   const FinetuneOptions& options) {
  const bool known = head_fits(config, task.head) && models::has_labels(task.head);
  std::optional<tasks::LabelSet> labels;
  if (known) labels.emplace(config.labels);
  if (task.head == HeadKind::sequence_classification) {
    tasks::ClassificationTarget target = {.problem = std::nullopt, .labels = labels};
    if (known && !config.problem_type.empty()) {
      target.problem = tasks::problem_type(config.problem_type);
    }
    auto data = tasks::read_classification(path, options.data, target);
    auto names = data.labels.names();
    if (data.problem == tasks::ProblemType::regression && !known) {
      require(!data.examples.empty(), "{}: expected examples, found none", path);
      names.clear();
      for (std::size_t i = 0; i < data.examples[0].values.size(); ++i) {
        names.push_back(fmt::format("LABEL_{}", i));
      }
    }
    const std::string problem(tasks::name_of(data.problem));
    return {std::move(data), std::move(names), problem};
  }
  if (task.head == HeadKind::token_classification) {
    auto data = tasks::read_tagging(path, options.data, labels);
    auto names = data.labels.names();
    return {std::move(data), std::move(names), ""};
  }
  if (task.head == HeadKind::question_answering) {
    auto data = tasks::read_questions(path, options.data);
    const bool unanswerable = data.unanswerable > 0;
    const bool answerable = data.report.examples > data.unanswerable;
    return {std::move(data), {}, "", answerable, unanswerable};
  }
  return {tasks::read_choices(path, options.data), {}, ""};
}

Task task_of(const models::EncoderConfig& config, const FinetuneOptions& options) {
  for (const Task& task : kTasks) {
    if (options.task.empty() ? head_fits(config, task.head) : options.task == task.name) {
      return task;
    }
  }
  require(
      !options.task.empty(),
      "task: expected a folder with a head, or one of classify, ner, qa, choose, candidates; found "
      "{}",
      config.architecture.empty() ? "neither" : config.architecture);
  fail("task: expected classify, ner, qa, choose or candidates, found \"{}\"", options.task);
}

/// The marks around candidates that the tokenizer of the folder does not have.
models::AddedTokens added_tokens(const std::string& folder, HeadKind head) {
  if (head != HeadKind::candidate_scoring) return {};
  const Tokenizer before = Tokenizer::load(folder);
  const Tokenizer after = Tokenizer::load(folder, tasks::kCandidateMarks);
  models::AddedTokens added;
  for (const std::string& mark : tasks::kCandidateMarks) {
    if (!before.id(mark)) added.emplace_back(mark, after.id(mark).value());
  }
  return added;
}

/// The first metric that an evaluation of the task gives.
std::string metric_of(const Task& task, const std::string& problem_type) {
  if (problem_type == "regression") return "pearson";
  if (problem_type == "multi_label_classification") return "f1_micro";
  return task.metric;
}

class FinetuneObjective final : public training::Objective {
 public:
  /// `path` is that of the source, for messages.
  FinetuneObjective(const std::string& folder, const std::string& path,
                    const FinetuneOptions& options, const Source& source, TrainedModel& model)
      : options_(options),
        has_answerable_(source.has_answerable),
        has_unanswerable_(source.has_unanswerable),
        model_(model),
        handle_(model.model()),
        tokenizer_(matching_tokenizer(handle_, folder, marks())),
        collator_(tokenizer_, reading(), options.label_all_pieces) {
    std::visit([&](const auto& data) { collate(data); }, source.data);
    report_ = collator_.report();
    require(!examples_.empty(), "{}: expected examples, found none", path);
    for (const tasks::Example& example : examples_) {
      Index tokens = 0;
      for (const auto& row : example.rows) tokens += static_cast<Index>(row.ids.size());
      lengths_.push_back(tokens);
    }
  }

  const tasks::CollationReport& report() const { return report_; }
  /// Examples that do not become rows, and why the first one did not.
  std::int64_t skipped() const { return skipped_.skipped; }
  const std::string& first_skipped() const { return skipped_.first_skipped; }
  Index rows() const { return static_cast<Index>(examples_.size()); }
  std::span<const Index> lengths() const { return lengths_; }
  Index micro_batches() const { return (rows() + batch_size() - 1) / batch_size(); }

  training::MicroBatchLoss run(const training::MicroBatch& micro) override {
    if (micro.epoch != epoch_) reorder(micro.epoch);
    std::vector<tasks::Example> chosen;
    const Index first = micro.index * batch_size();
    for (Index i = first; i < std::min(first + batch_size(), rows()); ++i) {
      chosen.push_back(example(order_[static_cast<std::size_t>(i)]));
    }
    const tasks::TrainingBatch batch = tasks::training_batch(model_.config(), chosen);
    return model_.step(batch.tokens, targets_of(batch), micro.seed);
  }

  /// What evaluations are made on: an objective over the validation data, which must live as long.
  void set_validation(const FinetuneObjective& validation) { validation_ = &validation; }

  std::vector<std::string> metric_names() const override {
    const FinetuneObjective& data = validation_ == nullptr ? *this : *validation_;
    auto names =
        longformer::metric_names(handle_.info(), data.has_answerable_, data.has_unanswerable_);
    names.insert(names.begin(), "loss");
    return names;
  }

  training::Metrics evaluate() override {
    if (validation_ == nullptr) return {};
    EvaluateOptions options;
    options.data = options_.data;
    options.too_long = options_.too_long;
    options.stride = options_.stride;
    options.global_attention = options_.global_attention;
    options.threshold = options_.threshold;
    options.batch_tokens = options_.batch_tokens;
    training::Metrics metrics = {{"loss", validation_->mean_loss()}};
    const auto found = longformer::evaluate(handle_, tokenizer_, options_.validation_path, options);
    metrics.insert(metrics.end(), found.metrics.begin(), found.metrics.end());
    return metrics;
  }

  void save(const std::filesystem::path& folder) override { model_.save(folder); }
  void load(const std::filesystem::path& folder) override { model_.load(folder); }

 private:
  /// Over all examples in their order. As in the Hugging Face Trainer each has the mean loss of its
  /// batch, here of as many examples as a micro-batch has.
  double mean_loss() const {
    double sum = 0, count = 0;
    for (Index first = 0; first < rows(); first += batch_size()) {
      const Index end = std::min(first + batch_size(), rows());
      const std::vector<tasks::Example> chosen(examples_.begin() + first, examples_.begin() + end);
      const tasks::TrainingBatch batch = tasks::training_batch(model_.config(), chosen);
      const ops::LossSum loss = model_.loss(batch.tokens, targets_of(batch));
      if (loss.weight == 0) continue;
      sum += static_cast<double>(end - first) * loss.sum / loss.weight;
      count += static_cast<double>(end - first);
    }
    return count > 0 ? sum / count : 0;
  }

  bool scores_candidates() const {
    return model_.implementation().head == HeadKind::candidate_scoring;
  }

  std::span<const std::string> marks() const {
    return scores_candidates() ? tasks::kCandidateMarks : std::span<const std::string>();
  }

  template <typename Data>
  void collate(const Data& data) {
    for (const auto& example : data.examples) {
      tasks::read_record(tasks::place_of(data.path, example.origin), options_.data, skipped_,
                         [&] { collate_one(example); });
    }
  }

  template <typename Given>
  void collate_one(const Given& example) {
    if constexpr (std::is_same_v<Given, tasks::ChoiceExample>) {
      if (scores_candidates()) return collate_candidates(example);
    }
    for (auto& part : collator_.collate(example)) examples_.push_back(std::move(part));
  }

  void collate_candidates(const tasks::ChoiceExample& example) {
    if (!candidates_) {
      candidates_.emplace(tokenizer_, reading());
    }
    tasks::CandidateTokens tokens = candidates_->tokens(example.question);
    examples_.push_back(collator_.collate(candidates_->read(tokens), example.label));
    questions_.push_back(std::move(tokens));
  }

  /// Candidates and supports come in another order in every epoch (spec.md C.4).
  tasks::Example example(Index index) {
    const auto at = static_cast<std::size_t>(index);
    if (!candidates_) return examples_[at];
    const std::uint64_t seed =
        random_bits(random_bits(options_.training.seed, static_cast<std::uint64_t>(epoch_)), at);
    const auto mixed = tasks::shuffled(questions_[at], examples_[at].label, seed);
    return collator_.collate(candidates_->read(mixed.tokens), mixed.label);
  }

  Index batch_size() const { return options_.training.per_device_train_batch_size; }

  tasks::ReadingOptions reading() const {
    tasks::ReadingOptions reading = reading_options(handle_, options_);
    if (reading.global_positions) return reading;
    const HeadKind head = model_.implementation().head;
    const bool global = model_.config().has_global_attention();
    reading.global_positions = [this, head, global](const Encoding& tokens, std::string_view) {
      if (head == HeadKind::multiple_choice && global) return tasks::from_second_text(tokens);
      if (head == HeadKind::candidate_scoring && global) return tasks::of_candidate_part(tokens);
      return models::default_globals(model_.config(), head, tokens.ids, options_.train_path);
    };
    return reading;
  }

  void reorder(std::int64_t epoch) {
    epoch_ = epoch;
    const std::uint64_t seed =
        random_bits(options_.training.seed, static_cast<std::uint64_t>(epoch));
    order_ = options_.training.group_by_length
                 ? tasks::shuffled_by_length(lengths_, batch_size(), seed)
                 : tasks::shuffled(rows(), seed);
  }

  /// The rows of an example, counted from the first of its document; none when it does not count.
  std::vector<std::vector<Index>> answers_of(const tasks::TrainingBatch& batch,
                                             std::span<const Index> rows,
                                             std::span<const Index> offsets) const {
    std::vector<std::vector<Index>> answers(batch.has_answer.size());
    for (std::size_t e = 0; e < answers.size(); ++e) {
      if (batch.has_answer[e] == 0 && !has_unanswerable_) continue;
      const Index first = batch.tokens.starts[e];
      for (Index i = offsets[e]; i < offsets[e + 1]; ++i) {
        answers[e].push_back(rows[static_cast<std::size_t>(i)] - first);
      }
    }
    return answers;
  }

  models::Targets targets_of(const tasks::TrainingBatch& batch) const {
    models::Targets targets;
    switch (model_.implementation().head) {
      case HeadKind::token_classification:
        targets.labels = batch.token_labels;
        break;
      case HeadKind::question_answering:
        targets.starts = answers_of(batch, batch.starts, batch.start_offsets);
        targets.ends = answers_of(batch, batch.ends, batch.end_offsets);
        break;
      case HeadKind::candidate_scoring:
        targets.choices = batch.candidate_counts;
        targets.candidates = batch.candidates;
        targets.labels = batch.labels;
        break;
      case HeadKind::multiple_choice:
        for (std::size_t i = 0; i + 1 < batch.examples.size(); ++i) {
          targets.choices.push_back(batch.examples[i + 1] - batch.examples[i]);
        }
        targets.labels = batch.labels;
        break;
      default:
        targets.labels = batch.labels;
        targets.values = batch.values;
    }
    return targets;
  }

  const FinetuneOptions& options_;
  bool has_answerable_, has_unanswerable_;
  TrainedModel& model_;
  Model handle_;
  Tokenizer tokenizer_;
  tasks::Collator collator_;
  std::vector<tasks::Example> examples_;
  /// For candidate scoring: what the examples are made of.
  std::optional<tasks::CandidateReader> candidates_;
  std::vector<tasks::CandidateTokens> questions_;
  std::vector<Index> lengths_;
  tasks::CollationReport report_;
  tasks::DataReport skipped_;
  std::int64_t epoch_ = -1;
  std::vector<Index> order_;
  const FinetuneObjective* validation_ = nullptr;
};

training::PhaseCost cost_of(const TrainedModel& model, const FinetuneOptions& options,
                            std::span<const Index> lengths) {
  double tokens = 0, flops = 0;
  Index longest = 0;
  // Documents of like length cost alike: a sample tells.
  const std::size_t step = std::max<std::size_t>(1, lengths.size() / 64);
  for (std::size_t i = 0; i < lengths.size(); i += step) {
    tokens += static_cast<double>(lengths[i]);
    flops += 3 * model_flops(model.config(), lengths[i], 1);
  }
  for (const Index length : lengths) longest = std::max(longest, length);
  const Index batch = options.training.per_device_train_batch_size;
  const double mean =
      tokens / std::ceil(static_cast<double>(lengths.size()) / static_cast<double>(step));
  const auto per_step = static_cast<double>(batch * options.training.gradient_accumulation_steps);
  return {.tokens_per_step = static_cast<std::int64_t>(mean * per_step),
          .flops_per_token = tokens > 0 ? flops / tokens : 0,
          .activation_bytes = activation_bytes(
              model.config(), {.tokens = longest * batch,
                               .dtype = model.implementation().dtype,
                               .recomputes = options.training.gradient_checkpointing})};
}

/// Throws Error for options that do not suit each other, the task, or the data.
void check_options(const FinetuneOptions& options, const Task& task, const Source& source) {
  const TrainingOptions& training = options.training;
  require(training.eval_strategy == "no" || !options.validation_path.empty(),
          "validation_file: expected examples to evaluate on, as eval_strategy is {}, found none",
          training.eval_strategy);
  require(options.head_learning_rate >= 0 && std::isfinite(options.head_learning_rate),
          "head_learning_rate: expected a number of at least 0, found {}",
          options.head_learning_rate);
  require(options.threshold >= 0 && options.threshold <= 1,
          "threshold: expected a probability from 0 to 1, found {}", options.threshold);
  const bool one_class = task.head != HeadKind::question_answering &&
                         source.problem_type != "regression" &&
                         source.problem_type != "multi_label_classification";
  require(one_class || training.label_smoothing_factor == 0,
          "label_smoothing_factor: expected 0 where there is not one right class, found {}",
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

FinetuneData summary_of(const Task& task, const Source& source, const FinetuneObjective& objective,
                        const TrainedModel& model) {
  const tasks::DataReport& read = source.report();
  std::vector<std::string> added_tokens;
  for (const auto& [token, id] : model.added_tokens()) added_tokens.push_back(token);
  const tasks::CollationReport& rows = objective.report();
  return {.task = task.name,
          .labels = source.labels,
          .problem_type = source.problem_type,
          .examples = read.examples,
          .skipped = read.skipped + objective.skipped(),
          .empty = read.empty,
          .first_skipped = read.skipped > 0 ? read.first_skipped : objective.first_skipped(),
          .rows = rows.rows,
          .tokens = rows.tokens,
          .truncated_documents = rows.truncated_documents,
          .truncated_tokens = rows.truncated_tokens,
          .unreached_answers = rows.unreached_answers,
          .drawn = model.drawn(),
          .added_tokens = std::move(added_tokens)};
}

}  // namespace

TrainingResult finetune(const std::string& folder, const FinetuneOptions& options,
                        const FinetuneCallbacks& callbacks) {
  check(options.training);
  const models::EncoderConfig config = models::read_config(folder + "/config.json");
  const Task task = task_of(config, options);
  if (task.head == HeadKind::candidate_scoring && options.global_attention) {
    tasks::check_candidate_rule(options.global_attention->rule());
  }
  FinetuneOptions used = options;
  const Source source = read_source(config, task, used.train_path, used);
  check_options(used, task, source);
  if (used.training.metric_for_best_model.empty()) {
    used.training.metric_for_best_model = metric_of(task, source.problem_type);
  }
  TrainedModelSetup setup = {.folder = folder,
                             .head = task.head,
                             .labels = source.labels,
                             .problem_type = source.problem_type,
                             .shares_global_projections = used.shared_global_projections,
                             .added_tokens = added_tokens(folder, task.head),
                             .note = callbacks.training.note};
  set_rates(used, setup);
  TrainedModel model(std::move(setup), used.training);
  FinetuneObjective objective(folder, used.train_path, used, source, model);
  std::optional<FinetuneData> validation;
  std::optional<FinetuneObjective> held_out;
  if (used.training.eval_strategy != "no") {
    // What is wrong with the validation data shall not end a training that has begun.
    const Source read = read_source(model.config(), task, used.validation_path, used);
    held_out.emplace(folder, used.validation_path, used, read, model);
    validation = summary_of(task, read, *held_out, model);
    objective.set_validation(*held_out);
  }
  if (callbacks.data) callbacks.data(summary_of(task, source, objective, model));
  if (callbacks.validation && validation) callbacks.validation(*validation);
  training::Phase phase = training::single_phase(used.training, objective.micro_batches());
  phase.cost = cost_of(model, used, objective.lengths());
  return run_training(used.training, {phase}, model.parameters(), objective, callbacks.training);
}

}  // namespace longformer
