#include <algorithm>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "core/threads.h"
#include "engine/run/model_cost.h"
#include "engine/training/adapter_training.h"
#include "engine/training/training_run.h"
#include "formats/safetensors.h"
#include "longformer/language_model.h"
#include "models/attention/routed.h"
#include "models/convert/files.h"
#include "models/language_model.h"
#include "models/trained_folder.h"
#include "tasks/language_model/phases.h"
#include "tasks/language_model/symbols.h"
#include "tasks/language_model/text_scoring.h"
#include "training/model_card.h"

namespace longformer {
namespace {

using tasks::LanguageModelPhase;

/// Folder of the tokenizer of a model of tokens.
std::string symbols_folder(const LanguageModelTraining& options) {
  if (!options.model_folder.empty()) return options.model_folder;
  if (!options.tokenizer_folder.empty()) return options.tokenizer_folder;
  const auto parent = std::filesystem::path(options.config_file).parent_path();
  return parent.empty() ? "." : parent.string();
}

models::LanguageModelConfig config_of(const LanguageModelTraining& options) {
  require(options.model_folder.empty() != options.config_file.empty(),
          "pretraining: expected a model folder or a config file, found {}",
          options.config_file.empty() ? "neither" : "both");
  models::LanguageModelConfig config = models::read_language_model(
      options.config_file.empty() ? options.model_folder + "/config.json" : options.config_file);
  require(config.reads_tokens || options.tokenizer_folder.empty(), OptionName("tokenizer"),
          "expected the vocabulary tokenizer in {}, found {}", options.config_file,
          config.vocabulary());
  require(!options.config_file.empty() || options.tokenizer_folder.empty(), OptionName("tokenizer"),
          "expected none for a model that has one, found {}", options.tokenizer_folder);
  if (config.reads_tokens && config.vocab_size == 0) {
    config.vocab_size = Tokenizer::load(symbols_folder(options)).vocabulary_size();
  }
  return config;
}

models::Weights weights_of(const LanguageModelTraining& options) {
  const TrainingOptions& training = options.training;
  const bool drawn = options.model_folder.empty();
  auto adapter = adapter_training(training, {"query_key_value"}, [](const auto&) { return true; });
  require(!drawn || !adapter, "{}: expected weights that an adapter is trained for, found none",
          options.config_file);
  return models::Weights::trained(
      drawn ? models::Weights::drawn(training.seed)
            : models::Weights::open(options.model_folder, {}, training.adapter),
      {.seed = training.seed, .adapter = std::move(adapter)});
}

class LanguageModelObjective final : public training::Objective {
 public:
  LanguageModelObjective(const LanguageModelTraining& options, models::LanguageModelConfig config,
                         int ranks)
      : options_(options),
        config_(std::move(config)),
        ranks_(ranks),
        weights_(weights_of(options)),
        dtype_(compute_dtype(options.training.dtype)),
        threads_(checked_threads(options.training.threads)),
        model_(config_, weights_, dtype_),
        symbols_(config_, symbols_folder(options)),
        text_(options.data, symbols_),
        train_(text_.part(options.validation_file.empty() ? TextPart::train : TextPart::all)) {
    if (!options.validation_file.empty()) {
      held_out_.emplace(LanguageModelText{.files = {options.validation_file},
                                          .clean_up = options.data.clean_up,
                                          .encoding = options.data.encoding},
                        symbols_);
      require(held_out_->size() > 1, "{}: expected two {} or more to evaluate on, found {}",
              held_out_->name(), symbols_.are_tokens() ? "tokens" : "characters",
              held_out_->size());
    }
    require(options.segments == "random" || options.segments == "consecutive",
            OptionName("segments"), "expected random or consecutive, found \"{}\"",
            options.segments);
    // A memory is that of the segment before, which another rank would have read.
    require(ranks == 1 || !config_.has_memory(),
            "ranks: expected one for a model with memory, found {}", ranks);
    check_shares();
    weights_.check_low_rank();
    for (const auto& [name, value] : weights_.parameters()) {
      add_parameter(name, value);
    }
    set_phases();
  }

  training::ParameterSet& parameters() { return parameters_; }
  void tell_nonfinite(const std::function<void(const std::string&)>& note) const {
    weights_.tell_nonfinite(note);
  }
  std::vector<training::Phase> phases() const;

  void begin_phase(const training::Phase& /*phase*/, std::int64_t number) override {
    phase_ = static_cast<std::size_t>(number);
    if (!config_.has_memory()) model_.set_windows(phases_[phase_].windows);
    memories_.reset();
    // Buffers of other lengths.
    memory_.clear();
  }
  void begin_step(std::int64_t step) override { weights_.begin_step(step); }
  training::MicroBatchLoss run(const training::MicroBatch& micro) override;
  training::Metrics evaluate() override;
  training::Metrics evaluation_details() override { return details_; }
  std::vector<std::string> metric_names() const override {
    if (config_.has_compression_loss()) return {"loss", "bpc", "compression_loss"};
    return {"loss", "bpc"};
  }
  nlohmann::ordered_json setup() const override;
  std::string card(const TrainingResult& result) const override;
  void save(const std::filesystem::path& folder) override {
    if (weights_.trained_adapter() != nullptr) {
      models::write_adapter({.base = options_.model_folder,
                             .architecture = {},
                             .name_of = [](const std::string& name) { return name; }},
                            weights_, folder);
      return;
    }
    models::LanguageModelConfig config = model_.config();
    config.trained_length = std::ranges::max(phases_, {}, &LanguageModelPhase::length).length;
    models::write_json(folder / "config.json", models::to_json(config));
    formats::write_safetensors((folder / "model.safetensors").string(), weights_.parameters());
    if (!symbols_.are_tokens()) return;
    models::copy_tokenizer_files(symbols_folder(options_), folder);
    models::keep_tokenizer_class(symbols_folder(options_), folder);
  }
  void load(const std::filesystem::path& folder) override {
    models::read_trained_folder(folder, weights_);
  }
  void save_progress(const std::filesystem::path& folder) override {
    if (memories_) memories_->save(folder);
  }
  void load_progress(const std::filesystem::path& folder) override {
    if (!config_.has_memory() || !std::filesystem::exists(folder / "state.json")) return;
    memories_ = start_memories();
    memories_->restore(folder);
  }

 private:
  void add_parameter(const std::string& name, const Tensor& value) {
    const bool is_span = models::holds_spans(name), follows = models::holds_centroids(name);
    training::Parameter parameter = {
        .name = name,
        .value = value,
        .decays = !is_span && !follows && training::decays_by_name(name)};
    if (is_span) parameter.limits = {.least = 0, .most = 1};
    if (follows) parameter.averages = config_.routing.decay;
    parameters_.add(std::move(parameter));
  }
  void set_phases();
  void check_shares() const;
  /// Text that an evaluation reads.
  tasks::ScoredText validation() const {
    const tasks::SymbolText& text = held_out_ ? *held_out_ : text_;
    return {.text = text,
            .range = text.part(held_out_ ? TextPart::all : TextPart::validation),
            .characters = options_.eval_characters};
  }
  /// Every row of a model with memories is a stream that goes on from segment to segment.
  bool is_random() const { return options_.segments == "random" && !config_.has_memory(); }
  models::State start_memories() const {
    const LanguageModelPhase& phase = phases_[phase_];
    return model_.start(dtype_, rows(phase), phase.lengths);
  }
  /// Characters that a row of a micro-batch reads.
  Index pass_length(const LanguageModelPhase& phase) const {
    return phase.length * config_.unroll_segments;
  }
  /// Rows of a micro-batch, and micro-batches of a pass over the text.
  Index rows(const LanguageModelPhase& phase) const {
    return std::min<Index>(options_.training.per_device_train_batch_size, phase.batch);
  }
  Index segments(const LanguageModelPhase& phase) const {
    return config_.has_memory() ? micro_batches(phase) * rows(phase)
                                : (train_.size() - 1) / phase.length;
  }
  /// Characters of each of the streams that the text is cut into.
  Index stream_size(const LanguageModelPhase& phase) const {
    return (train_.size() - 1) / rows(phase);
  }
  Index micro_batches(const LanguageModelPhase& phase) const {
    if (config_.has_memory()) return stream_size(phase) / pass_length(phase);
    return (segments(phase) + rows(phase) - 1) / rows(phase);
  }
  std::vector<Index> beginnings(const training::MicroBatch& micro) const;
  training::PhaseCost cost_of(const LanguageModelPhase& phase) const;
  ops::Context context() { return {.memory = memory_, .dtype = dtype_, .threads = threads_}; }

  const LanguageModelTraining& options_;
  models::LanguageModelConfig config_;
  int ranks_;
  models::Weights weights_;
  DType dtype_;
  int threads_;
  models::LanguageModel model_;
  tasks::Symbols symbols_;
  tasks::SymbolText text_;
  tasks::SymbolText::Range train_;
  /// Present if the validation text is a file of its own.
  std::optional<tasks::SymbolText> held_out_;
  training::ParameterSet parameters_;
  std::vector<LanguageModelPhase> phases_;
  std::size_t phase_ = 0;
  /// State of the streams during an epoch.
  std::optional<models::State> memories_;
  training::Metrics details_;
  MemoryPool memory_;
};

/// Attention shares need evaluations that go on behind full memories.
void LanguageModelObjective::check_shares() const {
  if (!options_.attention_shares) return;
  require(config_.has_memory(), OptionName("attention_shares", "attention shares"),
          "expected a model with memories, found attention {}", models::name_of(config_.attention));
  require(options_.training.eval_strategy != "no",
          OptionName("attention_shares", "attention shares"),
          "expected an eval_strategy of steps or epoch, found no");
  const models::MemoryLengths& lengths = config_.lengths;
  const Index rows = lengths.memory + (lengths.compressed + 1) * config_.compression_rate;
  const Index least = (rows / lengths.segment + 1) * lengths.segment + 1;
  const Index most = validation().count();
  require(most >= least, OptionName("attention_shares", "attention shares"),
          "expected evaluations of {} characters or more, which fill the memories "
          "and go on, found {}",
          least, most);
}

void LanguageModelObjective::set_phases() {
  const TrainingOptions& training = options_.training;
  const Index accumulated = training.gradient_accumulation_steps;
  if (options_.phases_file.empty()) {
    Index usual = LanguageModelTraining::kUsualLength;
    if (config_.has_memory()) usual = config_.lengths.segment;
    if (config_.max_positions > 0) usual = std::min(usual, config_.max_positions);
    // Every position is trained in every step.
    if (config_.positions == models::Positions::axial) usual = config_.max_positions;
    const Index length = options_.length.value_or(usual);
    require(length >= 1, OptionName("length"), "expected 1 or more, found {}", length);
    models::MemoryLengths lengths = config_.lengths;
    lengths.segment = length;
    phases_.push_back({.name = {},
                       .length = length,
                       .windows = config_.windows,
                       .lengths = lengths,
                       .learning_rate = training.learning_rate,
                       .batch = training.per_device_train_batch_size * accumulated});
  } else {
    phases_ = tasks::read_phases(options_.phases_file, config_);
    require(accumulated == 1, OptionName("training.gradient_accumulation_steps"),
            "expected 1, as the batch of a phase says it, found {}", accumulated);
  }
  const bool is_axial = config_.positions == models::Positions::axial;
  const auto& [rows_of_positions, columns] = config_.reformer.axial_shape;
  for (const LanguageModelPhase& phase : phases_) {
    require(config_.max_positions == 0 || phase.length <= config_.max_positions,
            OptionName("length"),
            "expected at most {} tokens, as many as the model has positions, found {}",
            config_.max_positions, phase.length);
    require(!is_axial || phase.length == rows_of_positions * columns, OptionName("length"),
            "expected {}, as axial_pos_shape is {} × {} and every position is to be trained, found "
            "{}",
            rows_of_positions * columns, rows_of_positions, columns, phase.length);
    require(segments(phase) >= 1, "{}: expected a text {}longer than {} of {} characters, found {}",
            text_.name(), held_out_ ? "" : "whose first 90 % are ",
            config_.has_memory() ? "the segments of a batch" : "a segment", pass_length(phase),
            train_.size());
    require(phase.batch % rows(phase) == 0, OptionName("training.per_device_train_batch_size"),
            "expected a divisor of the batch of {} of {}, found {}", phase.batch, phase.name,
            rows(phase));
  }
  if (!options_.phases_file.empty()) return;
  LanguageModelPhase& only = phases_[0];
  const training::Phase plan = training::single_phase(training, micro_batches(only), ranks_);
  only.steps = plan.steps;
  only.warmup_steps = plan.warmup_steps;
  if (training.warmup_steps == 0) {
    only.warmup_steps = std::min(only.warmup_steps, tasks::usual_warmup(Index{1} << 40));
  }
}

nlohmann::ordered_json LanguageModelObjective::setup() const {
  nlohmann::ordered_json setup = {{"config.json", models::to_json(config_)},
                                  {"segments", options_.segments},
                                  {"length of the training text", train_.size()}};
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    const LanguageModelPhase& phase = phases_[i];
    nlohmann::ordered_json& one = setup[fmt::format("phase {}", i + 1)];
    one = {{"length", phase.length}, {"batch", phase.batch}, {"windows", phase.windows}};
    one["memory_length"] = phase.lengths.memory;
    one["compressed_memory_length"] = phase.lengths.compressed;
  }
  if (weights_.trained_adapter() != nullptr) setup["base weights"] = weights_.fingerprint();
  return setup;
}

std::string LanguageModelObjective::card(const TrainingResult& result) const {
  training::ModelCard card = {.verb = "pretrain-lm",
                              .name = training::public_name(options_.training.output_dir),
                              .base = training::public_name(options_.model_folder),
                              .pipeline = "text-generation",
                              .tags = {"longformer.cpp"}};
  for (const std::string& file : options_.data.files) {
    card.data.emplace_back("training file", training::public_name(file));
  }
  card.data.emplace_back(symbols_.are_tokens() ? "training tokens" : "training characters",
                         std::to_string(train_.size()));
  LanguageModelTraining shown = options_, usual;
  return training::text_of(card, fields(shown), fields(usual), result);
}

std::vector<training::Phase> LanguageModelObjective::phases() const {
  std::vector<training::Phase> phases;
  for (const LanguageModelPhase& phase : phases_) {
    phases.push_back({.name = phase.name,
                      .steps = phase.steps,
                      .learning_rate = phase.learning_rate,
                      .warmup_steps = phase.warmup_steps,
                      .accumulation = phase.batch / rows(phase),
                      .micro_batches_per_epoch = is_random() ? 0 : micro_batches(phase),
                      .cost = cost_of(phase)});
  }
  return phases;
}

std::vector<Index> LanguageModelObjective::beginnings(const training::MicroBatch& micro) const {
  const LanguageModelPhase& phase = phases_[phase_];
  std::vector<Index> begins;
  for (Index i = 0; i < rows(phase); ++i) {
    if (is_random()) {
      const auto places = static_cast<std::uint64_t>(train_.size() - phase.length);
      const std::uint64_t bits = random_bits(micro.seed, static_cast<std::uint64_t>(i));
      begins.push_back(static_cast<Index>(bits % places));
      continue;
    }
    if (config_.has_memory()) {
      begins.push_back(i * stream_size(phase) + micro.index * pass_length(phase));
      continue;
    }
    const Index segment = micro.index * rows(phase) + i;
    if (segment < segments(phase)) begins.push_back(segment * phase.length);
  }
  return begins;
}

training::MicroBatchLoss LanguageModelObjective::run(const training::MicroBatch& micro) {
  const Index length = pass_length(phases_[phase_]);
  std::vector<std::int32_t> ids, labels;
  for (const Index begin : beginnings(micro)) {
    const auto segment = text_.ids(train_.begin + begin, length + 1);
    ids.insert(ids.end(), segment.begin(), segment.end() - 1);
    labels.insert(labels.end(), segment.begin() + 1, segment.end());
  }
  models::PassOptions pass;
  if (config_.has_memory()) {
    if (micro.index == 0 || !memories_) memories_ = start_memories();
    pass.state = &*memories_;
  }
  Tape tape;
  ops::Context training = context();
  training.tape = &tape;
  // Its own: the seed of the micro-batch itself chooses the segments.
  training.dropout_seed = random_bits(micro.seed, ~std::uint64_t{0});
  training.recomputes = options_.training.gradient_checkpointing;
  const ops::LossSum loss =
      model_.loss(training, models::segments_of(ids, length), labels,
                  {.scale = 1, .label_smoothing = options_.training.label_smoothing_factor}, pass);
  tape.backward();
  return {.loss = loss.sum, .weight = loss.weight, .tokens = static_cast<Index>(ids.size())};
}

training::Metrics LanguageModelObjective::evaluate() {
  const tasks::ScoredText scored = validation();
  tasks::TextScore score;
  if (config_.sees_everything()) {
    // It has learned to read segments, not a text without end.
    const Index length = phases_[phase_].length;
    const LanguageModelEvaluation windows = {.window = length, .step = tasks::scored_part(length)};
    score = tasks::score_windows(model_, context(), scored, windows, {});
  } else {
    score = tasks::score_streaming(model_, context(), model_.start(dtype_), scored, {},
                                   {.attention_shares = options_.attention_shares});
  }
  if (options_.attention_shares) details_ = tasks::named_shares(tasks::mean_shares(score.shares));
  if (config_.has_spans()) {
    double sum = 0;
    for (const std::vector<double>& layer : model_.spans()) {
      sum += std::accumulate(layer.begin(), layer.end(), 0.0);
    }
    details_ = {{"mean_span", sum / static_cast<double>(config_.layers * config_.heads)}};
  }
  memory_.clear();
  const double mean = score.loss.sum / score.loss.weight;
  const std::string_view bytes =
      scored.text.bytes({scored.range.begin + 1, scored.range.begin + 1 + scored.count()});
  const double rate = static_cast<double>(scored.count()) / static_cast<double>(bytes.size());
  training::Metrics metrics = {{"loss", mean}, {"bpc", mean * rate / std::numbers::ln2}};
  if (score.compression.weight > 0) {
    metrics.emplace_back("compression_loss", score.compression.sum / score.compression.weight);
  }
  return metrics;
}

training::PhaseCost LanguageModelObjective::cost_of(const LanguageModelPhase& phase) const {
  models::LanguageModelConfig config = config_;
  config.windows = phase.windows;
  config.lengths = phase.lengths;
  const Index tokens = rows(phase) * pass_length(phase);
  return {.tokens_per_step = phase.batch * pass_length(phase),
          .flops_per_token = language_model_training_flops(config, phase.length) /
                             static_cast<double>(phase.length),
          .activation_bytes =
              activation_bytes(config, phase.length,
                               {.tokens = tokens,
                                .dtype = dtype_,
                                .recomputes = options_.training.gradient_checkpointing})};
}

}  // namespace

TrainingResult train_language_model(const LanguageModelTraining& given,
                                    const TrainingCallbacks& callbacks) {
  LanguageModelTraining options = given;
  TrainingOptions& training = options.training;
  models::LanguageModelConfig config = config_of(options);
  const bool data_end = config.has_memory() || options.segments != "random";
  choose_eval_strategy(training, !options.validation_file.empty(), data_end);
  check(training);
  LanguageModelObjective objective(options, std::move(config), rank_count(callbacks));
  objective.tell_nonfinite(callbacks.note);
  const std::vector<training::Phase> phases = objective.phases();
  if (given.training.eval_strategy.empty()) {
    // However short the training is, it ends with an evaluation.
    std::int64_t steps = 0;
    for (const training::Phase& phase : phases) steps += phase.steps;
    training.eval_steps = std::min(training.eval_steps, std::max<std::int64_t>(1, steps));
  }
  return run_training(training, phases, objective.parameters(), objective, callbacks);
}

}  // namespace longformer
