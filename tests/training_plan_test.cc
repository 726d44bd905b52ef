// What a training finds before its first step and after its last one: room on the disk, another
// training in its folder, a warm-up without end, nothing left to do.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "error_testing.h"
#include "formats/json.h"
#include "temporary_folder.h"
#include "toy_network.h"
#include "training/disk_plan.h"
#include "training/trainer.h"

namespace longformer::training {
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
            .threads = 1};
  }

  static TrainingResult train(const TrainingOptions& options,
                              const TrainingCallbacks& callbacks = {}) {
    toy::Network network;
    const Comm comm;
    Trainer trainer({.options = options, .phases = {single_phase(options, 7)}},
                    network.parameters(), network, comm);
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
    const Comm comm;
    wanted.overwrite_output_dir = true;
    Trainer trainer(
        {.options = wanted, .phases = {single_phase(wanted, 7)}, .free_disk_bytes = free},
        network.parameters(), network, comm);
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
  // What is there makes room.
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
}  // namespace longformer::training
