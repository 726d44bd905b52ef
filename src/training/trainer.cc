#include "training/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "core/random.h"
#include "core/threads.h"
#include "formats/json.h"
#include "formats/new_folder.h"
#include "formats/safetensors.h"
#include "formats/weights.h"
#include "training/disk_plan.h"
#include "training/evaluations.h"
#include "training/model_card.h"
#include "training/resumption.h"

namespace longformer::training {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kOptionsFile = "training_args.json";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Cost of a step: its FLOPs, or 1 where they are unknown.
double work_of(const Phase& phase) {
  const double flops = static_cast<double>(phase.cost.tokens_per_step) * phase.cost.flops_per_token;
  return flops > 0 ? flops : 1;
}

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Moves files and folders; a folder that the target has already gets the files.
void move_entries(const fs::path& from, const fs::path& target) {
  for (const auto& entry : fs::directory_iterator(from)) {
    const fs::path place = target / entry.path().filename();
    if (entry.is_directory() && fs::is_directory(place)) {
      move_entries(entry.path(), place);
    } else {
      fs::rename(entry.path(), place);
    }
  }
}

}  // namespace

Phase single_phase(const TrainingOptions& options, std::int64_t micro_batches_per_epoch,
                   int ranks) {
  const std::int64_t accumulation = options.gradient_accumulation_steps;
  std::int64_t steps = options.max_steps;
  if (steps <= 0) {
    require(micro_batches_per_epoch > 0, OptionName("training.max_steps"),
            "expected a number, as the data have no end");
    const auto per_epoch =
        static_cast<double>(divided_up(micro_batches_per_epoch, accumulation * ranks));
    steps = static_cast<std::int64_t>(std::ceil(options.num_train_epochs * per_epoch));
  }
  return {.steps = steps,
          .learning_rate = options.learning_rate,
          .warmup_steps = warmup_of(options.warmup_steps, options.warmup_ratio, steps),
          .accumulation = accumulation,
          .micro_batches_per_epoch = micro_batches_per_epoch};
}

Trainer::Trainer(TrainerSetup setup, ParameterSet& parameters, Objective& objective)
    : setup_(std::move(setup)),
      parameters_(parameters),
      objective_(objective),
      team_(setup_.ranks),
      threads_(checked_threads(setup_.options.threads)),
      checkpoints_(setup_.options.output_dir) {
  check(setup_.options);
  choose_eval_strategy(setup_.options, false);
  if (setup_.options.early_stopping_patience > 0) setup_.options.load_best_model_at_end = true;
  require(parameters_.trained_elements() > 0, "training: expected trained parameters, found none");
  for (const Phase& phase : setup_.phases) {
    require(phase.steps >= 0 && phase.accumulation >= 1,
            "phase '{}': expected steps and accumulation, found {} and {}", phase.name, phase.steps,
            phase.accumulation);
    for (const auto& [name, strategy] :
         {std::pair("training.eval_strategy", setup_.options.eval_strategy),
          std::pair("training.save_strategy", setup_.options.save_strategy)}) {
      require(phase.micro_batches_per_epoch > 0 || strategy != "epoch", OptionName(name),
              "expected no or steps, as the data have no end, found 'epoch'");
    }
  }
  set_metric();
  optimizer_ = Optimizer::make(setup_.options, parameters_, threads_);
}

void Trainer::set_metric() {
  std::string& metric = setup_.options.metric_for_best_model;
  if (metric.empty()) metric = "loss";
  const std::vector<std::string> names = objective_.metric_names();
  const bool known = std::find(names.begin(), names.end(), plain_metric(metric)) != names.end();
  require(known || names.empty(), OptionName("training.metric_for_best_model"),
          "expected one of {}, found '{}'", fmt::join(names, ", "), metric);
}

TrainingResult Trainer::run(const TrainingCallbacks& callbacks) {
  callbacks_ = callbacks;
  const ThreadLimit limit(threads_);
  open_output();
  try {
    run_phases();
  } catch (const RankLost& lost) {
    end_without(lost);
  }
  report_result();
  return result_;
}

void Trainer::run_phases() {
  const std::int64_t data = data_bytes();
  resume();
  check_ranks();
  double done = is_done() ? 1 : 0;
  team_.follow({&done, 1});
  if (done != 0) return;
  state_.finished_steps = 0;
  state_.setup = objective_.setup();
  if (team_.leads()) {
    checkpoints_.remove_leftovers();
    const fs::path file = fs::path(setup_.options.output_dir) / kOptionsFile;
    formats::write_file(file.string(), to_json(setup_.options));
  }
  const TrainingPlan planned = plan(data);
  if (callbacks_.plan) callbacks_.plan(planned);
  check_plan(planned);
  bad_before_ = bad_weights(parameters_, threads_);
  if (team_.leads()) {
    log_ = std::make_unique<Log>(setup_.options.output_dir, state_.log_history, state_.step);
  }
  write_beginning();
  const auto phases = static_cast<std::int64_t>(setup_.phases.size());
  bool goes_on = true;
  while (goes_on && state_.phase < phases) {
    goes_on = run_phase();
    if (!goes_on || state_.phase + 1 == phases) break;
    ++state_.phase;
    state_.phase_step = state_.epoch = state_.epoch_micro_batches = 0;
  }
  if (!result_.interrupted) finish();
}

void Trainer::check_ranks() const {
  // A single rank need not read all its weights.
  if (team_.size() == 1) return;
  Json data = {objective_.setup(), state_.micro_batches_per_epoch, state_.micro_batches,
               formats::parse_json(to_json(setup_.options), "options")};
  // Each machine has its own folders and cores.
  for (const char* own :
       {"output_dir", "overwrite_output_dir", "resume_from_checkpoint", "threads", "adapter"}) {
    data.back().erase(own);
  }
  team_.check_same(static_cast<std::uint64_t>(state_.step) << 16, "the step of the checkpoint");
  team_.check_same(fnv1a(data.dump()), "the data and options");
  team_.check_same(hash_of(parameters_), "the weights");
}

void Trainer::report_result() {
  result_.steps = state_.step;
  report_evaluations(setup_.options, state_, result_);
  result_.last_checkpoint = last_checkpoint();
  if (state_.best_step > 0 && fs::exists(checkpoints_.folder(state_.best_step))) {
    result_.best_checkpoint = checkpoints_.folder(state_.best_step).string();
  }
}

void Trainer::write_beginning() {
  if (state_.step > 0 || !state_.log_history.empty()) return;
  Json line = objective_.beginning();
  if (line.empty()) return;
  line["step"] = 0;
  log(std::move(line));
}

bool Trainer::is_done() const {
  const bool has_steps_left = state_.step == 0 || state_.finished_steps < total_steps();
  const fs::path output = setup_.options.output_dir;
  const char* model = trains_adapter() ? formats::kAdapterFile : "model.safetensors";
  return !has_steps_left && fs::exists(output / model);
}

void Trainer::open_output() {
  if (!team_.leads()) return;
  const TrainingOptions& options = setup_.options;
  const fs::path folder = options.output_dir;
  std::error_code failure;
  fs::create_directories(folder, failure);
  require(fs::is_directory(folder), "output_dir: could not create '{}': {}", folder.string(),
          failure.message());
  lock_.emplace(folder, "output_dir");
  const bool has_adapter = fs::exists(folder / formats::kAdapterFile);
  // Beside each other they would be a model that nobody has trained.
  const bool is_adapter = trains_adapter();
  const bool is_other = is_adapter ? formats::has_weights(folder.string()) : has_adapter;
  require(!is_other, OptionName("training.output_dir"),
          "expected a folder without {}, found one in '{}'",
          is_adapter ? "the weights of a model beside those of an adapter" : "an adapter",
          folder.string());
  if (options.overwrite_output_dir && options.resume_from_checkpoint.empty()) {
    checkpoints_.remove_all();
    fs::remove_all(folder / "runs");
  }
  const bool occupied = !checkpoints_.steps().empty() || fs::exists(folder / "config.json") ||
                        fs::exists(folder / "model.safetensors") || has_adapter;
  require(!occupied || options.overwrite_output_dir || !options.resume_from_checkpoint.empty(),
          {Remedy::resume_or_overwrite}, OptionName("training.output_dir"),
          "expected a new folder, found a former training in '{}'", folder.string());
}

std::int64_t Trainer::data_bytes() const {
  const std::int64_t weights = memory_plan(parameters_, *optimizer_, 0).weight_bytes;
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(resident_bytes()) - weights);
}

void Trainer::resume() {
  const std::string& wanted = setup_.options.resume_from_checkpoint;
  if (wanted.empty()) return;
  fs::path folder = wanted;
  if (wanted == "last") {
    if (last_checkpoint().empty()) {
      note(fmt::format("no checkpoint in '{}': training begins anew", setup_.options.output_dir));
      return;
    }
    folder = last_checkpoint();
  }
  const std::string state_file = (folder / kStateFile).string();
  require(fs::exists(state_file), OptionName("training.resume_from_checkpoint"),
          "expected a checkpoint with {}, found '{}'", kStateFile, folder.string());
  state_ = trainer_state_from_json(formats::read_json(state_file), state_file);
  const auto phases = static_cast<std::int64_t>(setup_.phases.size());
  require(state_.phase < phases, "{}: expected one of {} phases, found phase {}", state_file,
          phases, state_.phase + 1);
  // How the data are split says more than how many there are.
  check_setup(state_.setup, objective_.setup(), state_file);
  require(state_.micro_batches_per_epoch == phase().micro_batches_per_epoch,
          "{}: expected epochs of {} micro-batches, as data and batch size of the checkpoint have "
          "them, found {}",
          state_file, state_.micro_batches_per_epoch, phase().micro_batches_per_epoch);
  const std::string options_file = (folder / kOptionsFile).string();
  const Json options = formats::parse_json(to_json(setup_.options), "options");
  for (const std::string& text :
       changed_options(formats::read_json(options_file), options, options_file)) {
    note(text);
  }
  objective_.load(folder);
  resumed_from_ = folder;
  const std::string moments = (folder / kOptimizerFile).string();
  optimizer_->restore(formats::SafetensorsFile::open(moments).tensors(), state_.optimizer_steps,
                      moments);
}

TrainingPlan memory_plan(const ParameterSet& parameters, const Optimizer& optimizer,
                         std::int64_t activation_bytes) {
  TrainingPlan plan{.trained_parameters = parameters.trained_elements(),
                    .frozen_parameters = parameters.frozen_elements(),
                    .gradient_bytes = 4 * parameters.trained_elements(),
                    .optimizer_bytes = optimizer.state_bytes(),
                    .activation_bytes = activation_bytes};
  plan.weight_bytes = 4 * (plan.trained_parameters + plan.frozen_parameters);
  plan.peak_bytes =
      plan.weight_bytes + plan.gradient_bytes + plan.optimizer_bytes + plan.activation_bytes;
  return plan;
}

TrainingPlan Trainer::plan(std::int64_t data_bytes) const {
  std::int64_t activation_bytes = 0;
  for (const Phase& phase : setup_.phases) {
    activation_bytes = std::max(activation_bytes, phase.cost.activation_bytes);
  }
  TrainingPlan plan = memory_plan(parameters_, *optimizer_, activation_bytes);
  plan.data_bytes = data_bytes;
  plan.peak_bytes += data_bytes;
  plan.steps = total_steps();
  plan.steps_done = state_.step;
  double flops = 0;
  std::int64_t done = state_.step;
  for (const Phase& phase : setup_.phases) {
    const std::int64_t left = std::max<std::int64_t>(0, phase.steps - done);
    done = std::max<std::int64_t>(0, done - phase.steps);
    const PhaseCost& cost = phase.cost;
    plan.tokens_per_step = std::max(plan.tokens_per_step, cost.tokens_per_step);
    flops += static_cast<double>(left * cost.tokens_per_step) * cost.flops_per_token;
  }
  const double rate = setup_.gemm_flops * setup_.expected_fraction;
  if (rate > 0) plan.seconds = flops / rate;
  plan_disk(plan);
  return plan;
}

bool Trainer::trains_adapter() const {
  return setup_.options.lora_rank > 0 || !setup_.options.adapter.empty();
}

void Trainer::plan_disk(TrainingPlan& plan) const {
  const TrainingOptions& options = setup_.options;
  const std::int64_t model = trains_adapter() ? 4 * plan.trained_parameters : plan.weight_bytes;
  plan.disk_bytes =
      peak_disk_bytes({.model_bytes = model,
                       .checkpoint_bytes = model + plan.optimizer_bytes,
                       .written = checkpoints_left(options, setup_.phases, state_, team_.size()),
                       .before = static_cast<std::int64_t>(checkpoints_.steps().size()),
                       .limit = options.save_total_limit,
                       .keeps_best = options.eval_strategy != "no"});
  plan.free_disk_bytes =
      setup_.free_disk_bytes ? setup_.free_disk_bytes : free_disk_bytes(options.output_dir);
}

void Trainer::check_plan(const TrainingPlan& plan) const {
  constexpr double kMegabyte = 1e6;
  const std::int64_t free = plan.free_disk_bytes.value_or(plan.disk_bytes);
  require(plan.disk_bytes <= free, {Remedy::fewer_checkpoints}, OptionName("training.output_dir"),
          "expected {:.1f} MB of disk space for the model and its checkpoints, found "
          "{:.1f} MB in '{}'",
          static_cast<double>(plan.disk_bytes) / kMegabyte, static_cast<double>(free) / kMegabyte,
          setup_.options.output_dir);
  for (const Phase& phase : setup_.phases) {
    if (phase.steps == 0 || phase.warmup_steps <= phase.steps) continue;
    note(
        fmt::format("{}the warm-up of {} steps is longer than the training of {}: the learning "
                    "rate ends at {:.3g} "
                    "of {:.3g}",
                    phase.name.empty() ? "" : phase.name + ": ", phase.warmup_steps, phase.steps,
                    phase.learning_rate * static_cast<double>(phase.steps) /
                        static_cast<double>(phase.warmup_steps),
                    phase.learning_rate));
  }
}

std::int64_t Trainer::total_steps() const {
  std::int64_t steps = 0;
  for (const Phase& phase : setup_.phases) steps += phase.steps;
  return steps;
}

double Trainer::work_left() const {
  double work = -static_cast<double>(state_.phase_step) * work_of(phase());
  for (auto i = static_cast<std::size_t>(state_.phase); i < setup_.phases.size(); ++i) {
    work += static_cast<double>(setup_.phases[i].steps) * work_of(setup_.phases[i]);
  }
  return work;
}

double Trainer::learning_rate() const {
  const TrainingOptions& options = setup_.options;
  const Schedule schedule{.kind = schedule_kind(options.lr_scheduler_type),
                          .peak = phase().learning_rate,
                          .warmup_steps = phase().warmup_steps,
                          .steps = phase().steps,
                          .power = options.lr_power,
                          .end = options.lr_end};
  return schedule.rate(state_.phase_step);
}

bool Trainer::run_phase() {
  const TrainingOptions& options = setup_.options;
  objective_.begin_phase(phase(), state_.phase);
  if (!resumed_from_.empty()) objective_.load_progress(std::exchange(resumed_from_, {}));
  bool goes_on = state_.step < total_steps();
  while (goes_on && state_.phase_step < phase().steps) {
    const StepReport done = step();
    const bool is_last = state_.step == total_steps();
    // The loss of the next step would tell of others.
    if (is_last) check_weights();
    TrainingProgress progress = report(done);
    if (options.eval_strategy != "no" &&
        is_due(options.eval_strategy, options.eval_steps, done.ends_epoch || is_last)) {
      evaluate(progress);
    } else if (done.ends_epoch || is_last) {
      close_epoch(progress.epoch, 0, {}, state_);
    }
    if (callbacks_.progress) callbacks_.progress(progress);
    const bool stops = agree(callbacks_.stop && callbacks_.stop());
    result_.interrupted = stops && !is_last && !result_.stopped_early;
    goes_on = !result_.interrupted && !result_.stopped_early && !is_last;
    const bool is_best = options.load_best_model_at_end && state_.best_step == state_.step;
    const bool saves =
        options.save_strategy != "no" &&
        (!goes_on || is_due(options.save_strategy, options.save_steps, done.ends_epoch));
    if (saves || is_best || result_.interrupted) save_checkpoint();
  }
  return goes_on;
}

Trainer::StepReport Trainer::step() {
  const auto start = Clock::now();
  StepReport done{.learning_rate = learning_rate()};
  std::int64_t rounds = phase().accumulation;
  const std::int64_t per_epoch = phase().micro_batches_per_epoch;
  if (per_epoch > 0) {
    rounds = std::min(rounds, divided_up(per_epoch - state_.epoch_micro_batches, team_.size()));
  }
  objective_.begin_step(state_.step);
  const auto [sum, micro_batches] = run_micro_batches(rounds);
  done.tokens = sum.tokens;
  // A step without predictions changes no weight, not even by decay.
  const double scale = sum.weight > 0 ? 1 / sum.weight : 0;
  done.loss = sum.loss * scale;
  check_finite(done.loss, "loss");
  team_.sum_gradients(parameters_);
  done.gradient_norm = gradient_norm(parameters_, threads_) * scale;
  check_finite(done.gradient_norm, "gradient");
  if (sum.weight > 0) {
    const double clip = clipping_factor(done.gradient_norm, setup_.options.max_grad_norm);
    optimizer_->step(done.learning_rate, clip * scale);
  } else {
    for (Parameter& parameter : parameters_.items()) {
      if (parameter.has_gradient()) parameter.value.gradient()->clear();
    }
  }
  ++state_.step;
  ++state_.phase_step;
  state_.micro_batches += micro_batches;
  if (per_epoch > 0) state_.epoch_micro_batches += micro_batches;
  state_.tokens += sum.tokens;
  if (per_epoch > 0 && state_.epoch_micro_batches == per_epoch) {
    ++state_.epoch;
    state_.epoch_micro_batches = 0;
    done.ends_epoch = true;
  }
  done.seconds = seconds_since(start);
  seconds_ += done.seconds;
  unlogged_seconds_ += done.seconds;
  unlogged_tokens_ += done.tokens;
  work_ += work_of(phase());
  return done;
}

Trainer::StepSum Trainer::run_micro_batches(std::int64_t rounds) {
  std::array<double, 3> sums{};
  std::int64_t done = 0;
  for (std::int64_t round = 0; round < rounds; ++round) {
    const std::int64_t index = state_.epoch_micro_batches + done;
    const std::int64_t position = state_.micro_batches + done + team_.rank();
    const MicroBatch batch{
        .phase = state_.phase,
        .step = state_.step,
        .epoch = state_.epoch,
        .index = index + team_.rank(),
        .position = position,
        .seed = random_bits(setup_.options.seed, static_cast<std::uint64_t>(position))};
    // The last round of an epoch may have fewer micro-batches than ranks.
    const std::int64_t end = phase().micro_batches_per_epoch;
    const std::int64_t left = end > 0 ? end - index : team_.size();
    if (team_.rank() < left) {
      const MicroBatchLoss one = objective_.run(batch);
      sums[0] += one.loss;
      sums[1] += one.weight;
      sums[2] += static_cast<double>(one.tokens);
    }
    done += std::min<std::int64_t>(left, team_.size());
  }
  team_.sum(sums);
  return {
      .loss = {.loss = sums[0], .weight = sums[1], .tokens = static_cast<std::int64_t>(sums[2])},
      .micro_batches = done};
}

bool Trainer::agree(bool stops) {
  if (team_.size() == 1) return stops;
  double stopping = stops ? 1 : 0;
  team_.sum({&stopping, 1});
  std::array<double, 5> judged = {result_.stopped_early ? 1.0 : 0.0,
                                  static_cast<double>(state_.evaluations_without_gain),
                                  static_cast<double>(state_.best_step),
                                  state_.best_metric ? 1.0 : 0.0, state_.best_metric.value_or(0)};
  team_.follow(judged);
  result_.stopped_early = judged[0] != 0;
  state_.evaluations_without_gain = static_cast<std::int64_t>(judged[1]);
  state_.best_step = static_cast<std::int64_t>(judged[2]);
  if (judged[3] != 0) state_.best_metric = judged[4];
  return stopping != 0;
}

void Trainer::check_finite(double value, const char* what) const {
  if (std::isfinite(value)) return;
  const std::string bad = first_bad_gradient(parameters_, threads_);
  const std::string where = bad.empty() ? "" : fmt::format(", first in the gradient of {}", bad);
  fail("step {}: expected a finite {}, found {}{}; {}", state_.step + 1, what, value, where,
       last_good());
}

void Trainer::check_weights() const {
  for (const std::string& bad : bad_weights(parameters_, threads_)) {
    if (bad_before_.contains(bad)) continue;
    fail("step {}: expected finite weights behind it, found others in {}; {}", state_.step, bad,
         last_good());
  }
}

TrainingProgress Trainer::report(const StepReport& step) {
  const TrainingOptions& options = setup_.options;
  state_.unlogged_loss += step.loss;
  ++state_.unlogged_steps;
  add_step(step.loss, step.seconds, state_);
  TrainingProgress progress{
      .step = state_.step,
      .steps = total_steps(),
      .phase = phase().name,
      .loss = state_.unlogged_loss / static_cast<double>(state_.unlogged_steps),
      .learning_rate = step.learning_rate,
      .gradient_norm = step.gradient_norm,
      .tokens_per_second = static_cast<double>(unlogged_tokens_) / unlogged_seconds_,
      .logged = state_.step % options.logging_steps == 0 || state_.step == total_steps()};
  progress.seconds_left = seconds_ / work_ * work_left();
  if (setup_.gemm_flops > 0) {
    progress.fraction_of_bound =
        progress.tokens_per_second * phase().cost.flops_per_token / setup_.gemm_flops;
  }
  if (phase().micro_batches_per_epoch > 0) {
    progress.epoch = static_cast<double>(state_.epoch) +
                     static_cast<double>(state_.epoch_micro_batches) /
                         static_cast<double>(phase().micro_batches_per_epoch);
  }
  result_.loss = progress.loss;
  if (progress.logged) write_log(progress);
  return progress;
}

void Trainer::write_log(const TrainingProgress& progress) {
  Json line = {{"loss", progress.loss},
               {"grad_norm", progress.gradient_norm},
               {"learning_rate", progress.learning_rate},
               {"tokens_per_second", progress.tokens_per_second}};
  if (progress.fraction_of_bound > 0) line["fraction_of_bound"] = progress.fraction_of_bound;
  if (progress.epoch) line["epoch"] = *progress.epoch;
  if (!progress.phase.empty()) line["phase"] = progress.phase;
  line["tokens"] = state_.tokens;
  line["step"] = progress.step;
  log(std::move(line));
  state_.unlogged_loss = 0;
  state_.unlogged_steps = 0;
  unlogged_seconds_ = 0;
  unlogged_tokens_ = 0;
}

void Trainer::log(Json line) {
  if (log_) log_->write(line);
  state_.log_history.push_back(std::move(line));
}

bool Trainer::is_due(const std::string& strategy, std::int64_t every, bool ends_epoch) const {
  return strategy == "epoch" ? ends_epoch : state_.step % every == 0;
}

void Trainer::evaluate(TrainingProgress& progress) {
  try {
    judge(progress);
  } catch (const Error& error) {
    save_checkpoint();
    fail("evaluation after step {}: {}; the checkpoint is {}", state_.step, error.what(),
         last_checkpoint());
  }
}

void Trainer::judge(TrainingProgress& progress) {
  const TrainingOptions& options = setup_.options;
  const auto start = Clock::now();
  progress.metrics = objective_.evaluate();
  Json line = Json::object();
  std::optional<double> metric;
  std::string names;
  for (const auto& [name, value] : progress.metrics) {
    require(name != "loss" || std::isfinite(value), "expected a finite loss, found {}", value);
    line["eval_" + name] = value;
    names += (names.empty() ? "" : ", ") + name;
    if (name == plain_metric(options.metric_for_best_model)) metric = value;
  }
  for (const auto& [name, value] : objective_.evaluation_details()) line["eval_" + name] = value;
  const double seconds = seconds_since(start);
  line["eval_runtime"] = seconds;
  close_epoch(progress.epoch, seconds, progress.metrics, state_);
  line["train_loss"] = state_.epochs.back().loss;
  line["train_runtime"] = state_.epochs.back().seconds - seconds;
  if (progress.epoch) line["epoch"] = *progress.epoch;
  line["step"] = state_.step;
  log(std::move(line));
  require(metric || !options.load_best_model_at_end, OptionName("training.metric_for_best_model"),
          "expected one of {}, found '{}'", names, options.metric_for_best_model);
  if (metric) result_.stopped_early = count_evaluation(options, *metric, state_);
}

void Trainer::save_checkpoint() {
  check_weights();
  if (team_.leads()) write_checkpoint();
}

void Trainer::write_checkpoint() {
  state_.optimizer_steps = optimizer_->step_counts();
  state_.micro_batches_per_epoch = phase().micro_batches_per_epoch;
  checkpoints_.write(state_.step, [&](const fs::path& folder) {
    objective_.save(folder);
    objective_.save_progress(folder);
    formats::write_safetensors((folder / kOptimizerFile).string(), optimizer_->moments());
    formats::write_file((folder / kOptionsFile).string(), to_json(setup_.options));
    formats::write_file((folder / kStateFile).string(), training::to_json(state_).dump(2) + "\n");
  });
  checkpoints_.prune(setup_.options.save_total_limit, state_.best_step);
}

void Trainer::end_without(const RankLost& lost) {
  const fs::path folder = setup_.options.output_dir;
  const std::string what =
      fmt::format("step {}: rank {} of {}: expected an answer of the others, found none: {}",
                  state_.step + 1, team_.rank(), team_.size(), lost.what());
  if (!hold_folder(lock_, folder)) {
    fail("{}; another rank writes the checkpoint into {}", what, folder.string());
  }
  try {
    if (state_.step > 0 && !fs::exists(checkpoints_.folder(state_.step))) write_checkpoint();
  } catch (const std::exception& error) {
    fail("{}; no checkpoint could be written: {}; {}", what, error.what(), last_good());
  }
  fail("{}; {}", what, last_good());
}

void Trainer::finish() {
  if (setup_.options.load_best_model_at_end && state_.best_step > 0) {
    const fs::path best = checkpoints_.folder(state_.best_step);
    if (fs::exists(best)) {
      objective_.load(best);
    } else {
      note(fmt::format("the best checkpoint {} is gone: the final model is the last one",
                       best.string()));
    }
  }
  if (!team_.leads()) return;
  const fs::path output = setup_.options.output_dir;
  const auto write = [&] {
    const formats::NewFolder staging(output / "model");
    objective_.save(staging.path());
    staging.sync();
    move_entries(staging.path(), output);
    report_result();
    const std::string told = place_model_card(output, objective_.card(result_));
    formats::sync(output);
    if (!told.empty()) note(told);
  };
  try {
    write();
  } catch (const Error& error) {
    fail("the final model could not be written: {}; {}", error.what(), last_good());
  } catch (const fs::filesystem_error& error) {
    fail("the final model could not be written: {}; {}", error.what(), last_good());
  }
  mark_finished();
}

void Trainer::mark_finished() {
  const fs::path last = checkpoints_.folder(state_.step);
  if (!fs::exists(last)) return;
  state_.finished_steps = total_steps();
  formats::write_file((last / kStateFile).string(), training::to_json(state_).dump(2) + "\n");
}

std::string Trainer::last_good() const {
  const std::string last = last_checkpoint();
  return last.empty() ? "there is no checkpoint yet" : "the last good checkpoint is " + last;
}

std::string Trainer::last_checkpoint() const {
  const std::vector<std::int64_t> steps = checkpoints_.steps();
  return steps.empty() ? "" : checkpoints_.folder(steps.back()).string();
}

void Trainer::note(const std::string& text) const {
  if (callbacks_.note) callbacks_.note(text);
}

}  // namespace longformer::training
