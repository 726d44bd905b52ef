// Several ranks, as threads: they are one process with larger steps, and end whole when one is
// lost.
//
// Reruns: tsan
#include "longformer/ranks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "error_testing.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "rank_threads.h"
#include "toy_network.h"
#include "training/trainer.h"

namespace longformer::training::ranks_test {
namespace {

namespace fs = std::filesystem;

class RanksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "longformer-ranks-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  TrainingOptions options(const std::string& name) const {
    return {.output_dir = (folder_ / name).string(),
            .gradient_accumulation_steps = 1,
            .max_steps = 20,
            .learning_rate = 1e-2,
            .weight_decay = 0.01,
            .warmup_steps = 3,
            .logging_steps = 4,
            .save_steps = 6,
            .threads = 1};
  }

  /// One for each rank: what happened to it.
  struct Ended {
    std::string error;
    TrainingResult result;
    std::vector<float> weights;
  };
  using Change = std::function<void(int rank, TrainingOptions&, toy::Network&, TrainingCallbacks&)>;

  static std::vector<Ended> train(int count, const TrainingOptions& options,
                                  const Change& change = {}) {
    RankThreads ranks(count);
    std::vector<Ended> ended(static_cast<std::size_t>(count));
    const auto work = [&](int rank) {
      Ended& end = ended[static_cast<std::size_t>(rank)];
      const RankThreads::Member member(ranks, rank);
      toy::Network network;
      TrainingOptions own = options;
      TrainingCallbacks callbacks;
      if (change) change(rank, own, network, callbacks);
      end.error = error_of([&] {
        Trainer trainer({.options = own, .phases = {single_phase(own, 7, count)}, .ranks = &member},
                        network.parameters(), network);
        end.result = trainer.run(callbacks);
      });
      end.weights = network.parameters().at("hidden.weight").value.to_floats();
    };
    std::vector<std::thread> others;
    for (int rank = 1; rank < count; ++rank) others.emplace_back(work, rank);
    work(0);
    for (std::thread& other : others) other.join();
    return ended;
  }

  static std::vector<float> written(const std::string& folder) {
    return formats::SafetensorsFile::open(folder + "/model.safetensors")
        .tensors()
        .at("hidden.weight")
        .to_floats();
  }

  static void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(std::abs(found[i] - expected[i]) <= 1e-6f) << i;
    }
  }

  fs::path folder_;
};

TEST_F(RanksTest, AreOneProcessWithAsManyMoreMicroBatches) {
  for (const int count : {2, 3, 4}) {
    TrainingOptions one = options("one" + std::to_string(count));
    one.gradient_accumulation_steps = 2 * count;
    ASSERT_EQ(train(1, one)[0].error, "");
    TrainingOptions several = options("several" + std::to_string(count));
    several.gradient_accumulation_steps = 2;
    const auto ended = train(count, several);
    for (const Ended& end : ended) {
      EXPECT_EQ(end.error, "");
      EXPECT_EQ(end.result.steps, 20);
      EXPECT_EQ(end.weights, ended[0].weights);
    }
    expect_near(ended[0].weights, written(one.output_dir));
    EXPECT_EQ(written(several.output_dir), ended[0].weights);
  }
}

TEST_F(RanksTest, AnEpochIsReadOnceByAllTogether) {
  TrainingOptions wanted = options("epochs");
  wanted.max_steps = 0;
  wanted.num_train_epochs = 2;
  // Seven micro-batches, two ranks: four steps an epoch, of which the last has a single one.
  const auto ended = train(2, wanted);
  EXPECT_EQ(ended[1].result.steps, 8);
  const auto state =
      formats::read_json((folder_ / "epochs/checkpoint-8/trainer_state.json").string());
  EXPECT_EQ(state.at("micro_batches").get<int>(), 14);
}

TEST_F(RanksTest, ACheckpointGoesOnWithAnotherNumberOfRanks) {
  TrainingOptions one = options("one");
  one.gradient_accumulation_steps = 4;
  train(1, one);
  TrainingOptions parts = options("parts");
  parts.gradient_accumulation_steps = 1;
  train(4, parts, [](int rank, TrainingOptions&, toy::Network&, TrainingCallbacks& callbacks) {
    // One of them is enough to stop all.
    if (rank == 2) callbacks.stop = [count = 0]() mutable { return ++count == 7; };
  });
  EXPECT_FALSE(fs::exists(fs::path(parts.output_dir) / "model.safetensors"));
  parts.resume_from_checkpoint = "last";
  parts.gradient_accumulation_steps = 2;
  const auto ended = train(2, parts);
  EXPECT_EQ(ended[0].error, "");
  EXPECT_EQ(ended[1].result.steps, 20);
  expect_near(written(parts.output_dir), written(one.output_dir));
  // Whoever begins again finds that nothing is left to do.
  EXPECT_EQ(train(2, parts)[1].result.steps, 20);
}

TEST_F(RanksTest, ALostRankEndsTheOthersWithACheckpoint) {
  for (const int lost : {0, 1, 2}) {
    const TrainingOptions wanted = options("lost" + std::to_string(lost));
    const auto ended = train(
        3, wanted, [&](int rank, TrainingOptions&, toy::Network&, TrainingCallbacks& callbacks) {
          if (rank != lost) return;
          callbacks.progress = [](const TrainingProgress& progress) {
            if (progress.step == 9) fail("the machine is gone");
          };
        });
    for (int rank = 0; rank < 3; ++rank) {
      const std::string& error = ended[static_cast<std::size_t>(rank)].error;
      if (rank == lost) {
        EXPECT_EQ(error, "the machine is gone");
      } else {
        expect_error(error, {"of 3", "answer of the others", "connection closed"});
      }
    }
    TrainingOptions again = wanted;
    EXPECT_TRUE(fs::exists(fs::path(wanted.output_dir) / "checkpoint-9")) << lost;
    again.resume_from_checkpoint = "last";
    const auto whole = train(3, again);
    EXPECT_EQ(whole[0].error, "");
    const TrainingOptions other = options("whole" + std::to_string(lost));
    EXPECT_EQ(train(3, other)[0].weights, whole[0].weights);
  }
}

TEST_F(RanksTest, EveryRankHasTheSameModelAndData) {
  const auto errors_of = [&](const Change& change) {
    const auto ended = train(3, options("unequal"), change);
    EXPECT_EQ(ended[0].error, ended[1].error);
    return ended[0].error;
  };
  expect_error(errors_of([](int rank, TrainingOptions& own, toy::Network&, TrainingCallbacks&) {
                 if (rank == 1) own.learning_rate = 1;
               }),
               {"ranks", "options", "rank 1"});
  expect_error(errors_of([](int rank, TrainingOptions&, toy::Network& network, TrainingCallbacks&) {
                 if (rank == 2) *network.parameters().at("hidden.weight").value.data<float>() = 7;
               }),
               {"ranks", "weights", "rank 2"});
}

}  // namespace
}  // namespace longformer::training::ranks_test
