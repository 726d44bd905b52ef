// Checks of a training before its first step and after its last one: room on the disk, another
// training in its folder, a warm-up without end, nothing left to do.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "error_testing.h"
#include "formats/json.h"
#include "temporary_folder.h"
#include "toy_network.h"
#include "training/disk_plan.h"
#include "training/trainer.h"

namespace longformer::training::training_plan_test {
namespace {

namespace fs = std::filesystem;

class TrainingPlanTest : public ::testing::Test {
 protected:
  TrainingOptions options(const std::string& name = "out") const {
    return {.output_dir = folder_.name() + "/" + name,
            .gradient_accumulation_steps = 2,
            .max_steps = 20,
            .learning_rate = 1e-2,
            .logging_steps = 4,
            .save_steps = 6,
            .save_total_limit = 0,
            .threads = 1};
  }

  static TrainingResult train(const TrainingOptions& options,
                              const TrainingCallbacks& callbacks = {}) {
    toy::Network network;
    return train(options, network, callbacks);
  }
  static TrainingResult train(const TrainingOptions& options, toy::Network& network,
                              const TrainingCallbacks& callbacks = {}) {
    Trainer trainer({.options = options, .phases = {single_phase(options, 7)}},
                    network.parameters(), network);
    return trainer.run(callbacks);
  }
  static std::string model(const std::string& folder) {
    return formats::read_file(folder + "/model.safetensors");
  }

  TemporaryFolder folder_;
};

TEST_F(TrainingPlanTest, ADiskThatIsTooSmallIsFoundBeforeTheFirstStep) {
  // Four checkpoints (steps 6, 12, 18, 20) of a model of 384 numbers with two moments, the model.
  const std::int64_t model = 4 * 384, checkpoint = 3 * model;
  const auto run = [&](TrainingOptions wanted, std::int64_t free, TrainingPlan& plan) {
    toy::Network network;
    wanted.overwrite_output_dir = true;
    Trainer trainer(
        {.options = wanted, .phases = {single_phase(wanted, 7)}, .free_disk_bytes = free},
        network.parameters(), network);
    return error_of([&] { trainer.run({.plan = [&](const TrainingPlan& p) { plan = p; }}); });
  };
  TrainingPlan plan;
  const TrainingOptions all = options();
  expect_error(run(all, 4 * checkpoint + model - 1, plan),
               {"output_dir", "disk space", all.output_dir, "{fewer_checkpoints}"});
  EXPECT_EQ(plan.disk_bytes, 4 * checkpoint + model);
  EXPECT_FALSE(fs::exists(all.output_dir + "/log.jsonl"));
  EXPECT_EQ(run(all, 4 * checkpoint + model, plan), "");
  TrainingOptions few = options("few");
  few.save_total_limit = 1;
  // The old one goes when the next one is whole.
  EXPECT_NE(run(few, 2 * checkpoint - 1, plan), "");
  EXPECT_EQ(run(few, 2 * checkpoint, plan), "");
  TrainingOptions none = options("none");
  none.save_strategy = "no";
  EXPECT_EQ(run(none, model, plan), "");
  TrainingOptions epochs = options("epochs");
  epochs.save_strategy = "epoch";
  // Epochs of four steps, the last of which ends the training.
  EXPECT_EQ(run(epochs, 5 * checkpoint + model, plan), "");
  EXPECT_EQ(plan.disk_bytes, 5 * checkpoint + model);
}

TEST_F(TrainingPlanTest, WhatALimitedNumberOfCheckpointsNeeds) {
  const DiskNeed need = {.model_bytes = 1, .checkpoint_bytes = 10, .written = 5};
  EXPECT_EQ(peak_disk_bytes(need), 51);
  DiskNeed kept = need;
  kept.limit = 2;
  EXPECT_EQ(peak_disk_bytes(kept), 30);
  kept.keeps_best = true;
  EXPECT_EQ(peak_disk_bytes(kept), 40);
  // Existing files make room.
  kept.before = 3;
  EXPECT_EQ(peak_disk_bytes(kept), 10);
  kept.before = 4;
  EXPECT_EQ(peak_disk_bytes(kept), 10);
}

TEST_F(TrainingPlanTest, OneTrainingAtATimeInAFolder) {
  const TrainingOptions wanted = options();
  std::string error;
  bool had_lock = false;
  train(wanted, {.progress = [&](const TrainingProgress& progress) {
          if (progress.step != 8) return;
          had_lock = fs::exists(wanted.output_dir + "/.lock");
          TrainingOptions other = wanted;
          other.overwrite_output_dir = true;
          error = error_of([&] { train(other); });
        }});
  expect_error(error, {"output_dir", wanted.output_dir, "process " + std::to_string(::getpid())});
  EXPECT_TRUE(had_lock);
  EXPECT_TRUE(fs::exists(wanted.output_dir + "/checkpoint-6"));
  EXPECT_FALSE(fs::exists(wanted.output_dir + "/.lock"));
}

TEST_F(TrainingPlanTest, NothingIsLeftOfATrainingThatHasEnded) {
  TrainingOptions wanted = options();
  EXPECT_TRUE(train(wanted).loss.has_value());
  const std::string before = model(wanted.output_dir);
  wanted.resume_from_checkpoint = "last";
  const TrainingResult result = train(wanted);
  EXPECT_EQ(result.steps, 20);
  EXPECT_FALSE(result.loss.has_value());
  EXPECT_EQ(model(wanted.output_dir), before);
}

/// A network that gets worse, beside a description that decides what it is.
class Described : public toy::Network {
 public:
  nlohmann::ordered_json description = {{"config.json", {{"windows", {16, 32}}, {"layers", 2}}}};

  nlohmann::ordered_json setup() const override { return description; }
  training::Metrics evaluate() override { return {{"loss", ++evaluations_}}; }

 private:
  double evaluations_ = 0;
};

/// Every file below a folder with its bytes.
std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[entry.path().string()] = formats::read_file(entry.path().string());
  }
  return files;
}

TEST_F(TrainingPlanTest, WhereNothingIsLeftNoFileChanges) {
  TrainingOptions wanted = options();
  wanted.eval_strategy = "steps";
  wanted.eval_steps = wanted.save_steps = 5;
  wanted.load_best_model_at_end = true;
  Described network;
  train(wanted, network);
  const auto before = contents(wanted.output_dir);
  EXPECT_EQ(model(wanted.output_dir), model(wanted.output_dir + "/checkpoint-5"));
  EXPECT_NE(model(wanted.output_dir), model(wanted.output_dir + "/checkpoint-20"));
  // The last model must not take the place of the best.
  wanted.load_best_model_at_end = false;
  wanted.eval_strategy = "no";
  wanted.resume_from_checkpoint = "last";
  const TrainingResult result = train(wanted, network);
  EXPECT_FALSE(result.loss.has_value());
  EXPECT_EQ(result.steps, 20);
  EXPECT_EQ(contents(wanted.output_dir), before);
  // Without a model it is written; more steps are done.
  fs::remove(wanted.output_dir + "/model.safetensors");
  train(wanted, network);
  EXPECT_EQ(model(wanted.output_dir), model(wanted.output_dir + "/checkpoint-20"));
  wanted.max_steps = 22;
  EXPECT_EQ(train(wanted, network).steps, 22);
  EXPECT_EQ(model(wanted.output_dir), model(wanted.output_dir + "/checkpoint-22"));
}

TEST_F(TrainingPlanTest, ATrainingThatStoppedEarlyHasEnded) {
  TrainingOptions wanted = options();
  wanted.eval_strategy = "steps";
  wanted.eval_steps = wanted.save_steps = 4;
  wanted.early_stopping_patience = 1;
  wanted.load_best_model_at_end = true;
  Described network;
  EXPECT_EQ(train(wanted, network).steps, 8);
  const auto before = contents(wanted.output_dir);
  wanted.resume_from_checkpoint = "last";
  EXPECT_EQ(train(wanted, network).steps, 8);
  EXPECT_EQ(contents(wanted.output_dir), before);
}

TEST_F(TrainingPlanTest, GoesOnOnlyWithTheSameModelAndOrderOfData) {
  TrainingOptions wanted = options();
  Described network;
  train(wanted, network);
  wanted.resume_from_checkpoint = wanted.output_dir + "/checkpoint-6";
  const auto before = contents(wanted.output_dir);
  const auto refused = [&](const nlohmann::ordered_json& description) {
    Described other;
    other.description = description;
    return error_of([&] { train(wanted, other); });
  };
  expect_error(refused({{"config.json", {{"windows", {8, 8}}, {"layers", 2}}}}),
               {"checkpoint-6/trainer_state.json", "config.json: windows", "[16,32]", "[8,8]"});
  expect_error(refused({{"config.json", {{"windows", {16, 32}}}}}), {"config.json: layers", "2"});
  expect_error(refused({{"config.json", {{"windows", {16, 32}}, {"layers", 2}, {"heads", 1}}}}),
               {"config.json: heads", "null", "1"});
  EXPECT_EQ(contents(wanted.output_dir), before);
  // The order of keys means nothing.
  EXPECT_EQ(refused({{"config.json", {{"layers", 2}, {"windows", {16, 32}}}}}), "");
  const TrainingOptions same = wanted;
  const auto option_refused = [&](const TrainingOptions& changed) {
    return error_of([&] { train(changed, network); });
  };
  wanted = same;
  wanted.seed = 7;
  expect_error(option_refused(wanted), {"training_args.json", "seed", "42", "7"});
  wanted = same;
  wanted.per_device_train_batch_size = 3;
  expect_error(option_refused(wanted), {"per_device_train_batch_size", "3"});
  wanted = same;
  wanted.group_by_length = true;
  expect_error(option_refused(wanted), {"group_by_length", "false", "true"});
  wanted = same;
  wanted.learning_rate = 0.5;
  EXPECT_EQ(option_refused(wanted), "");
}

TEST_F(TrainingPlanTest, AWarmUpThatNeverEndsIsNoted) {
  TrainingOptions wanted = options();
  std::vector<std::string> notes;
  const TrainingCallbacks callbacks = {
      .note = [&](const std::string& text) { notes.push_back(text); }};
  wanted.warmup_steps = 20;
  train(wanted, callbacks);
  EXPECT_EQ(notes, std::vector<std::string>());
  wanted = options("long");
  wanted.warmup_steps = 25;
  train(wanted, callbacks);
  ASSERT_EQ(notes.size(), 1u);
  expect_error(notes[0], {"warm-up of 25 steps", "training of 20", "0.008 of 0.01"});
}

TEST_F(TrainingPlanTest, TheLastStepOfAPartOfAnEpochIsEvaluated) {
  TrainingOptions wanted = options();
  wanted.eval_strategy = "epoch";
  wanted.max_steps = 3;
  const TrainingResult result = train(wanted);
  ASSERT_EQ(result.evaluations.size(), 1u);
  EXPECT_EQ(result.evaluations[0].step, 3);
}

TEST(TrainingOptionsCheck, TheStrategyFollowsFromTheValidationData) {
  const auto chosen = [](std::string given, bool has_validation, bool data_end = true) {
    TrainingOptions options{.eval_strategy = std::move(given)};
    choose_eval_strategy(options, has_validation, data_end);
    return options.eval_strategy;
  };
  EXPECT_EQ(chosen("", true), "epoch");
  EXPECT_EQ(chosen("", true, false), "steps");
  EXPECT_EQ(chosen("", false), "no");
  EXPECT_EQ(chosen("no", true), "no");
  EXPECT_EQ(chosen("steps", true), "steps");
}

}  // namespace
}  // namespace longformer::training::training_plan_test
