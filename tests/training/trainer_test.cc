// The training loop on a network of two layers: what it computes, writes, keeps and refuses.
//
// Reruns: tsan
#include "training/trainer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "error_testing.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "kernels/optimizer_steps.h"
#include "toy_network.h"

namespace longformer::training::trainer_test {
namespace {

namespace fs = std::filesystem;

class TrainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "longformer-trainer-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  TrainingOptions options(const std::string& name = "out") const {
    return {.output_dir = (folder_ / name).string(),
            .gradient_accumulation_steps = 2,
            .max_steps = 20,
            .learning_rate = 1e-2,
            .weight_decay = 0.01,
            .warmup_steps = 3,
            .logging_steps = 4,
            .save_steps = 6,
            .save_total_limit = 0,
            .threads = 1};
  }

  static TrainingResult train(const TrainingOptions& options, Objective& objective,
                              ParameterSet& parameters, const TrainingCallbacks& callbacks = {}) {
    Trainer trainer({.options = options, .phases = {single_phase(options, 7)}}, parameters,
                    objective);
    return trainer.run(callbacks);
  }
  static TrainingResult train(const TrainingOptions& options,
                              const TrainingCallbacks& callbacks = {}) {
    toy::Network network;
    return train(options, network, network.parameters(), callbacks);
  }

  static std::vector<std::string> names(const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      names.insert(entry.path().filename().string());
    }
    return {names.begin(), names.end()};
  }
  static std::string model(const std::string& folder) {
    return formats::read_file(folder + "/model.safetensors");
  }
  static std::vector<nlohmann::ordered_json> log_of(const std::string& folder) {
    std::ifstream file(folder + "/log.jsonl");
    std::vector<nlohmann::ordered_json> lines;
    for (std::string line; std::getline(file, line);) {
      lines.push_back(formats::parse_json(line, "log"));
    }
    return lines;
  }

  fs::path folder_;
};

/// Breaks off or spoils a training at one step.
class Disturbed : public toy::Network {
 public:
  std::int64_t bad_step = -1;
  double bad_loss = 0;
  float bad_gradient = 0;
  std::vector<MicroBatch> seen = {};
  std::vector<std::string> phases = {};
  std::vector<double> metrics = {};
  std::string evaluation_error = {};

  void begin_phase(const Phase& phase, std::int64_t number) override {
    phases.push_back(phase.name + std::to_string(number));
  }
  MicroBatchLoss run(const MicroBatch& batch) override {
    seen.push_back(batch);
    MicroBatchLoss loss = toy::Network::run(batch);
    if (batch.step == bad_step) {
      loss.loss += bad_loss;
      parameters().at("output.weight").value.gradient()->sum.data<float>()[3] += bad_gradient;
    }
    return loss;
  }
  Metrics evaluate() override {
    require(evaluation_error.empty(), "{}", evaluation_error);
    if (metrics.empty()) return toy::Network::evaluate();
    const double value = metrics[evaluations_ % metrics.size()];
    ++evaluations_;
    return {{"accuracy", value}};
  }

 private:
  std::size_t evaluations_ = 0;
};

TEST_F(TrainerTest, StepsAreThoseOfAPlainLoop) {
  TrainingOptions wanted = options();
  wanted.max_grad_norm = 0.5;
  train(wanted);

  // The training written out: epochs of 7 micro-batches, two of them per step, the last step of
  // one.
  toy::Network network;
  auto& items = network.parameters().items();
  std::vector<Tensor> means;
  std::vector<Tensor> squares;
  for (const Parameter& parameter : items) {
    means.push_back(Tensor::zeros(parameter.value.shape(), DType::f32));
    squares.push_back(Tensor::zeros(parameter.value.shape(), DType::f32));
  }
  std::uint64_t count = 0;
  for (std::int64_t step = 0; step < 20; ++step) {
    const int micro_batches = step % 4 == 3 ? 1 : 2;
    for (int i = 0; i < micro_batches; ++i) network.run({.seed = random_bits(42, count++)});
    const double scale = 1.0 / static_cast<double>(micro_batches * toy::Network::kRows);
    double sum = 0;
    for (Parameter& parameter : items) {
      for (const float g : parameter.value.gradient()->sum.to_floats()) {
        sum += static_cast<double>(g) * static_cast<double>(g) * scale * scale;
      }
    }
    const double rate =
        1e-2 * (step < 3 ? static_cast<double>(step) / 3 : static_cast<double>(20 - step) / 17);
    for (std::size_t i = 0; i < items.size(); ++i) {
      kernels::adamw_step(items[i].value, items[i].value.gradient()->take(), means[i], squares[i],
                          {.learning_rate = rate,
                           .weight_decay = 0.01,
                           .step = step + 1,
                           .gradient_scale = scale * std::min(1.0, 0.5 / (std::sqrt(sum) + 1e-6))});
    }
  }
  const auto trained = formats::SafetensorsFile::open(wanted.output_dir + "/model.safetensors");
  for (const Parameter& parameter : items) {
    const std::vector<float> expected = parameter.value.to_floats();
    const std::vector<float> found = trained.tensors().at(parameter.name).to_floats();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(std::abs(found[i] - expected[i]) <= 2e-6f * std::abs(expected[i]) + 1e-7f);
    }
  }
}

TEST_F(TrainerTest, WhatItWrites) {
  const TrainingOptions wanted = options();
  std::vector<TrainingProgress> progress;
  TrainingPlan plan;
  const TrainingResult result =
      train(wanted, {.plan = [&](const TrainingPlan& p) { plan = p; },
                     .progress = [&](const TrainingProgress& p) { progress.push_back(p); }});
  EXPECT_EQ(result.steps, 20);
  EXPECT_FALSE(result.interrupted);
  EXPECT_EQ(plan.trained_parameters, 12 * 24 + 24 * 4);
  EXPECT_EQ(plan.steps, 20);
  EXPECT_EQ(plan.peak_bytes, 16 * plan.trained_parameters + plan.data_bytes);
  EXPECT_GT(plan.data_bytes, 0);
  EXPECT_EQ(
      names(wanted.output_dir),
      (std::vector<std::string>{"checkpoint-12", "checkpoint-18", "checkpoint-20", "checkpoint-6",
                                "log.jsonl", "model.safetensors", "runs", "training_args.json"}));
  EXPECT_EQ(names(wanted.output_dir + "/checkpoint-12"),
            (std::vector<std::string>{"model.safetensors", "optimizer.safetensors",
                                      "trainer_state.json", "training_args.json"}));
  EXPECT_EQ(model(wanted.output_dir), model(wanted.output_dir + "/checkpoint-20"));
  ASSERT_EQ(progress.size(), 20u);
  EXPECT_EQ(progress[3].loss, log_of(wanted.output_dir)[0].at("loss").get<double>());
  EXPECT_DOUBLE_EQ(*progress[3].epoch, 1.0);

  const auto log = log_of(wanted.output_dir);
  ASSERT_EQ(log.size(), 5u);
  for (std::size_t i = 0; i < log.size(); ++i) {
    EXPECT_EQ(log[i].at("step").get<std::size_t>(), 4 * (i + 1));
    EXPECT_TRUE(log[i].at("tokens_per_second").get<double>() > 0);
  }
  const auto state = formats::read_json(wanted.output_dir + "/checkpoint-20/trainer_state.json");
  EXPECT_EQ(state.at("log_history").size(), 5u);
  EXPECT_EQ(state.at("global_step").get<int>(), 20);
}

TEST_F(TrainerTest, Learns) {
  for (const char* optim : {"adamw", "adafactor"}) {
    TrainingOptions wanted = options(optim);
    wanted.optim = optim;
    wanted.max_steps = 300;
    std::vector<double> losses;
    train(wanted, {.progress = [&](const TrainingProgress& p) { losses.push_back(p.loss); }});
    EXPECT_TRUE(losses.back() < 0.3 * losses[3]) << losses[3] << " " << losses.back();
  }
}

TEST_F(TrainerTest, EveryMicroBatchOnce) {
  Disturbed network;
  train(options(), network, network.parameters());
  std::set<std::uint64_t> seeds;
  std::int64_t position = 0;
  for (const MicroBatch& batch : network.seen) {
    seeds.insert(batch.seed);
    EXPECT_EQ(batch.position, position);
    EXPECT_EQ(batch.epoch, position / 7);
    EXPECT_EQ(batch.index, position % 7);
    ++position;
  }
  EXPECT_EQ(position, 35);
  EXPECT_EQ(seeds.size(), 35u);
}

TEST_F(TrainerTest, EpochsGiveTheSteps) {
  TrainingOptions wanted = options();
  wanted.max_steps = 0;
  wanted.num_train_epochs = 2.5;
  EXPECT_EQ(single_phase(wanted, 7).steps, 10);
  wanted.warmup_steps = 0;
  wanted.warmup_ratio = 0.11;
  EXPECT_EQ(single_phase(wanted, 7).warmup_steps, 2);
  expect_error(error_of([&] { single_phase(wanted, 0); }), {"max_steps", "no end"});
}

TEST_F(TrainerTest, ResumedTrainingIsBitEqual) {
  TrainingOptions whole = options("whole");
  train(whole);
  const TrainingOptions parts = options("parts");
  const auto log_without_speed = [](const std::string& folder) {
    auto lines = log_of(folder);
    for (auto& line : lines) line.erase("tokens_per_second");
    return lines;
  };
  // Ended by the callback at steps that are no multiple of anything, and taken up again.
  std::vector<std::string> notes;
  for (const std::int64_t last : {5, 7, 13, 100}) {
    TrainingOptions wanted = parts;
    wanted.resume_from_checkpoint = "last";
    std::int64_t step = 0;
    const TrainingResult result =
        train(wanted, {.progress = [&](const TrainingProgress& p) { step = p.step; },
                       .note = [&](const std::string& text) { notes.push_back(text); },
                       .stop = [&] { return step >= last; }});
    EXPECT_EQ(result.interrupted, last < 100);
    EXPECT_EQ(result.steps, std::min<std::int64_t>(last, 20));
    EXPECT_EQ(fs::exists(wanted.output_dir + "/model.safetensors"), last == 100);
  }
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("begins anew"), std::string::npos);
  EXPECT_EQ(model(whole.output_dir), model(parts.output_dir));
  EXPECT_EQ(log_without_speed(whole.output_dir), log_without_speed(parts.output_dir));

  // From a checkpoint in the middle, by its path; changed options are told.
  TrainingOptions again = options("parts");
  again.resume_from_checkpoint = parts.output_dir + "/checkpoint-6";
  again.output_dir = (folder_ / "again").string();
  again.logging_steps = 5;
  notes.clear();
  train(again, {.note = [&](const std::string& text) { notes.push_back(text); }});
  EXPECT_EQ(notes,
            std::vector<std::string>{"logging_steps is 5, the checkpoint was written with 4"});
  EXPECT_EQ(model(whole.output_dir), model(again.output_dir));
}

TEST_F(TrainerTest, PhasesKeepTheMoments) {
  TrainingOptions wanted = options();
  wanted.lr_scheduler_type = "constant";
  const std::vector<Phase> phases = {
      {.name = "short", .steps = 5, .learning_rate = 1e-2, .accumulation = 2},
      {.name = "long", .steps = 4, .learning_rate = 5e-3, .warmup_steps = 2}};
  const auto run = [&](const std::string& name, std::int64_t last) {
    Disturbed network;
    wanted.output_dir = (folder_ / name).string();
    wanted.resume_from_checkpoint = "last";
    Trainer trainer({.options = wanted, .phases = phases}, network.parameters(), network);
    std::vector<double> rates;
    trainer.run({.progress = [&](const TrainingProgress& p) { rates.push_back(p.learning_rate); },
                 .stop = [&] { return static_cast<std::int64_t>(rates.size()) >= last; }});
    return std::pair(rates, network.phases);
  };
  const auto [rates, seen] = run("whole", 100);
  const std::vector<double> expected = {1e-2, 1e-2, 1e-2, 1e-2, 1e-2, 0, 2.5e-3, 5e-3, 5e-3};
  ASSERT_EQ(rates.size(), expected.size());
  for (std::size_t i = 0; i < rates.size(); ++i) EXPECT_DOUBLE_EQ(rates[i], expected[i]);
  EXPECT_EQ(seen, (std::vector<std::string>{"short0", "long1"}));
  // Every parameter has taken all steps in the optimizer.
  const auto state =
      formats::read_json((folder_ / "whole" / "checkpoint-9" / "trainer_state.json").string());
  EXPECT_EQ(state.at("optimizer_steps").at("hidden.weight").get<int>(), 9);

  // Ended exactly between the phases, and within the second.
  EXPECT_EQ(run("parts", 5).second, (std::vector<std::string>{"short0"}));
  EXPECT_EQ(run("parts", 2).second, (std::vector<std::string>{"short0", "long1"}));
  EXPECT_EQ(run("parts", 100).second, (std::vector<std::string>{"long1"}));
  EXPECT_EQ(model((folder_ / "whole").string()), model((folder_ / "parts").string()));
}

TEST_F(TrainerTest, TimeLeftCountsTheWorkOfLaterPhases) {
  const TrainingOptions wanted = options();
  const std::vector<Phase> phases = {
      {.steps = 4, .cost = {.tokens_per_step = 10, .flops_per_token = 2}},
      {.steps = 2, .cost = {.tokens_per_step = 100, .flops_per_token = 4}}};
  toy::Network network;
  TrainingPlan plan;
  std::vector<TrainingProgress> seen;
  Trainer trainer(
      {.options = wanted, .phases = phases, .gemm_flops = 100, .expected_fraction = 0.5},
      network.parameters(), network);
  trainer.run({.plan = [&](const TrainingPlan& p) { plan = p; },
               .progress = [&](const TrainingProgress& p) { seen.push_back(p); }});
  EXPECT_DOUBLE_EQ(plan.seconds, (4 * 20 + 2 * 400) / 50.0);
  EXPECT_EQ(plan.tokens_per_step, 100);
  // One of four steps of 20 is done; three of them and two of 400 are left.
  const double first = seen[0].seconds_left;
  EXPECT_TRUE(first > 0);
  const double step_seconds = first / (860.0 / 20);
  EXPECT_TRUE(step_seconds * seen[0].tokens_per_second <= 8.001);
  EXPECT_TRUE(step_seconds * seen[0].tokens_per_second >= 7.999);
  EXPECT_EQ(seen.back().seconds_left, 0);
}

TEST_F(TrainerTest, StopsAtALossThatIsNotFinite) {
  const TrainingOptions wanted = options();
  for (const bool in_gradient : {false, true}) {
    Disturbed network;
    network.bad_step = 14;
    if (in_gradient) {
      network.bad_gradient = std::numeric_limits<float>::infinity();
    } else {
      network.bad_loss = std::nan("");
    }
    TrainingOptions anew = wanted;
    anew.overwrite_output_dir = true;
    const std::string message = error_of([&] { train(anew, network, network.parameters()); });
    expect_error(message, {"step 15", in_gradient ? "finite gradient" : "finite loss",
                           "last good checkpoint", "checkpoint-12"});
    if (in_gradient) {
      EXPECT_NE(message.find("output.weight"), std::string::npos) << message;
    }
    EXPECT_EQ(Checkpoints(wanted.output_dir).steps(), (std::vector<std::int64_t>{6, 12}));
  }
  // The checkpoint before is good: the training goes on from it to the end.
  TrainingOptions resumed = wanted;
  resumed.resume_from_checkpoint = "last";
  EXPECT_EQ(train(resumed).steps, 20);
}

TEST_F(TrainerTest, EvaluatesKeepsTheBestAndStopsEarly) {
  TrainingOptions wanted = options();
  wanted.eval_strategy = "steps";
  wanted.eval_steps = 2;
  wanted.save_total_limit = 1;
  wanted.load_best_model_at_end = true;
  wanted.metric_for_best_model = "eval_accuracy";
  wanted.early_stopping_patience = 3;
  wanted.early_stopping_threshold = 0.05;
  Disturbed network;
  network.metrics = {0.5, 0.7, 0.6, 0.72, 0.1, 0.2};
  const TrainingResult result = train(wanted, network, network.parameters());
  EXPECT_TRUE(result.stopped_early);
  EXPECT_FALSE(result.interrupted);
  EXPECT_EQ(result.steps, 10);
  EXPECT_EQ(result.best_metric, 0.72);
  EXPECT_EQ(result.best_checkpoint, wanted.output_dir + "/checkpoint-8");
  EXPECT_EQ(Checkpoints(wanted.output_dir).steps(), (std::vector<std::int64_t>{8, 10}));
  EXPECT_EQ(model(wanted.output_dir), model(wanted.output_dir + "/checkpoint-8"));
  EXPECT_NE(model(wanted.output_dir), model(wanted.output_dir + "/checkpoint-10"));

  wanted.output_dir += "2";
  wanted.metric_for_best_model = "f1";
  expect_error(error_of([&] { train(wanted, network, network.parameters()); }),
               {"metric_for_best_model", "accuracy", "'f1'"});
}

TEST_F(TrainerTest, SmallerLossIsBetter) {
  TrainingOptions wanted = options();
  wanted.eval_strategy = "epoch";
  wanted.load_best_model_at_end = true;
  const TrainingResult result = train(wanted);
  EXPECT_EQ(result.best_checkpoint, wanted.output_dir + "/checkpoint-20");
  std::vector<double> losses;
  for (const auto& line : log_of(wanted.output_dir)) {
    if (line.contains("eval_loss")) losses.push_back(line.at("eval_loss").get<double>());
  }
  ASSERT_EQ(losses.size(), 5u);
  EXPECT_EQ(*result.best_metric, losses.back());
}

TEST_F(TrainerTest, SaveTotalLimitAndLeftovers) {
  TrainingOptions wanted = options();
  wanted.save_total_limit = 2;
  const fs::path output = wanted.output_dir;
  fs::create_directories(output / "checkpoint-99.tmp123");
  fs::create_directories(output / "model.tmp7");
  fs::create_directories(output / "checkpoint-98");
  train(wanted);
  EXPECT_EQ(Checkpoints(output).steps(), (std::vector<std::int64_t>{18, 20}));
  EXPECT_FALSE(fs::exists(output / "checkpoint-99.tmp123"));
  EXPECT_FALSE(fs::exists(output / "model.tmp7"));
  EXPECT_TRUE(fs::exists(output / "checkpoint-98")) << "not ours, and not taken for a checkpoint";

  expect_error(error_of([&] { train(wanted); }),
               {"output_dir", "former training", "{resume_or_overwrite}"});
  wanted.overwrite_output_dir = true;
  EXPECT_EQ(train(wanted).steps, 20);
}

TEST_F(TrainerTest, BadCheckpointsAreToldInOneLine) {
  TrainingOptions wanted = options();
  train(wanted);
  wanted.resume_from_checkpoint = (folder_ / "nowhere").string();
  expect_error(error_of([&] { train(wanted); }), {"resume_from_checkpoint", "nowhere"});
  const std::string checkpoint = wanted.output_dir + "/checkpoint-12";
  wanted.resume_from_checkpoint = checkpoint;
  const std::string state = formats::read_file(checkpoint + "/trainer_state.json");
  formats::write_file(checkpoint + "/trainer_state.json", "{\"global_step\": -3}");
  expect_error(error_of([&] { train(wanted); }), {"trainer_state.json", "global_step"});
  formats::write_file(checkpoint + "/trainer_state.json", state);
  const std::string moments = formats::read_file(checkpoint + "/optimizer.safetensors");
  formats::write_file(checkpoint + "/optimizer.safetensors", moments.substr(0, 1000));
  expect_error(error_of([&] { train(wanted); }), {"optimizer.safetensors"});
}

TEST_F(TrainerTest, GoesOnOnlyWithEpochsOfTheSameLength) {
  TrainingOptions wanted = options();
  train(wanted);
  wanted.resume_from_checkpoint = wanted.output_dir + "/checkpoint-6";
  toy::Network network;
  Trainer trainer({.options = wanted, .phases = {single_phase(wanted, 3)}}, network.parameters(),
                  network);
  expect_error(error_of([&] { trainer.run({}); }),
               {"trainer_state.json", "epochs of 7 micro-batches", "found 3"});
}

TEST_F(TrainerTest, AFailedEvaluationLeavesACheckpoint) {
  TrainingOptions wanted = options();
  wanted.eval_strategy = "steps";
  wanted.eval_steps = 4;
  Disturbed network;
  network.evaluation_error = "dev.jsonl:3: expected a label";
  expect_error(error_of([&] { train(wanted, network, network.parameters()); }),
               {"after step 4", "dev.jsonl:3", "checkpoint-4"});
  wanted.eval_strategy = "no";
  wanted.resume_from_checkpoint = "last";
  Disturbed again;
  EXPECT_EQ(train(wanted, again, again.parameters()).steps, 20);
  EXPECT_EQ(again.seen.front().step, 4);

  wanted = options("best");
  wanted.eval_strategy = "steps";
  wanted.eval_steps = 4;
  wanted.load_best_model_at_end = true;
  wanted.metric_for_best_model = "f1";
  expect_error(error_of([&] { train(wanted); }),
               {"metric_for_best_model: expected one of loss, found 'f1'", "checkpoint-4"});
}

TEST_F(TrainerTest, DataWithoutAnEndHaveNoEpochs) {
  toy::Network network;
  for (const char* name : {"eval_strategy", "save_strategy"}) {
    TrainingOptions wanted = options();
    (name[0] == 'e' ? wanted.eval_strategy : wanted.save_strategy) = "epoch";
    expect_error(error_of([&] {
                   Trainer({.options = wanted, .phases = {single_phase(wanted, 0)}},
                           network.parameters(), network);
                 }),
                 {name, "no end"});
  }
}

/// Makes files of more than some bytes impossible to write.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(TrainerTest, AFullDiskKeepsTheLastGoodCheckpoint) {
  const TrainingOptions wanted = options();
  std::string message;
  {
    // From step 8 on nothing but short files can be written.
    std::unique_ptr<FileSizeLimit> limit;
    message = error_of([&] {
      train(wanted, {.progress = [&](const TrainingProgress& p) {
              if (p.step == 8) limit = std::make_unique<FileSizeLimit>(1500);
            }});
    });
  }
  expect_error(message, {"step 12", "could not be written", "last good one", "checkpoint-6"});
  EXPECT_EQ(Checkpoints(wanted.output_dir).steps(), (std::vector<std::int64_t>{6}));
  for (const std::string& name : names(wanted.output_dir)) {
    EXPECT_EQ(name.find(".tmp"), std::string::npos) << name;
  }
  const TrainingOptions whole = options("whole");
  train(whole);
  TrainingOptions resumed = wanted;
  resumed.resume_from_checkpoint = "last";
  train(resumed);
  EXPECT_EQ(model(whole.output_dir), model(wanted.output_dir));
}

TEST(TrainingOptionsJson, RoundTrip) {
  TrainingOptions options{.output_dir = "out \"x\"",
                          .num_train_epochs = 0.1,
                          .optim = "adafactor",
                          .learning_rate = 1.0 / 3,
                          .greater_is_better = false,
                          .seed = 0xffffffffffffffffull,
                          .threads = 3};
  EXPECT_EQ(training_options_from_json(to_json(options), "x"), options);
  EXPECT_EQ(training_options_from_json(to_json(TrainingOptions()), "x"), TrainingOptions());
  EXPECT_EQ(training_options_from_json("{}", "x"), TrainingOptions());
  const auto error = [](const std::string& text) {
    return error_of([&] { training_options_from_json(text, "args.json"); });
  };
  expect_error(error(R"({"seed": -1})"), {"args.json", "seed", "whole number", "-1"});
  expect_error(error(R"({"threads": 1e10})"), {"threads", "whole number"});
  expect_error(error(R"({"optim": 1})"), {"optim", "a string"});
  expect_error(error(R"({"learning": 1})"), {"expected only keys", "learning"});
  expect_error(error("[1]"), {"args.json"});
}

TEST(TrainingOptionsCheck, NamesTheOption) {
  const auto error = [](const TrainingOptions& options) {
    return error_of([&] { check(options); });
  };
  EXPECT_EQ(error({.output_dir = "x"}), "");
  expect_error(error({}), {"output_dir"});
  expect_error(error({.output_dir = "x", .adam_beta1 = 1}), {"adam_beta1", "found 1"});
  expect_error(error({.output_dir = "x", .learning_rate = std::nan("")}), {"learning_rate", "nan"});
  expect_error(error({.output_dir = "x", .logging_steps = 0}), {"logging_steps", "at least 1"});
  expect_error(error({.output_dir = "x", .optim = "sgd"}), {"optim", "adamw", "'sgd'"});
  expect_error(error({.output_dir = "x", .load_best_model_at_end = true}), {"eval_strategy"});
  expect_error(error({.output_dir = "x", .threads = -1}), {"threads", "0", "1024", "found -1"});
  expect_error(error({.output_dir = "x", .threads = 1025}), {"threads", "1024", "found 1025"});
}

}  // namespace
}  // namespace longformer::training::trainer_test
