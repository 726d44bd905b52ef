// The best evaluation, the table of epochs, the number of checkpoints that stay, and the model
// card.
#include "training/evaluations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "error_testing.h"
#include "formats/json.h"
#include "temporary_folder.h"
#include "toy_network.h"
#include "training/model_card.h"
#include "training/trainer.h"

namespace longformer::training::evaluations_test {
namespace {

namespace fs = std::filesystem;

/// Has metrics and a card, and a line for the beginning of the log.
class Judged : public toy::Network {
 public:
  std::vector<double> values = {};

  Metrics evaluate() override {
    if (values.empty()) return toy::Network::evaluate();
    return {{"accuracy", values[next_++ % values.size()]}};
  }
  nlohmann::ordered_json beginning() const override { return {{"split", "a half"}}; }
  std::string card(const TrainingResult& result) const override {
    OptionFields none;
    return text_of({.verb = "train", .name = "a|b", .tags = {"x"}}, none, none, result);
  }

 private:
  std::size_t next_ = 0;
};

class EvaluationsTest : public ::testing::Test {
 protected:
  TrainingOptions options(const std::string& name = "out") const {
    return {.output_dir = folder_.name() + "/" + name,
            .gradient_accumulation_steps = 2,
            .max_steps = 20,
            .learning_rate = 1e-2,
            .logging_steps = 4,
            .eval_strategy = "steps",
            .eval_steps = 2,
            .save_steps = 6,
            .metric_for_best_model = "accuracy",
            .threads = 1};
  }
  static TrainingResult train(TrainingOptions options, std::vector<double> values,
                              const TrainingCallbacks& callbacks = {}) {
    Judged network;
    network.values = std::move(values);
    Trainer trainer({.options = std::move(options), .phases = {single_phase(options_of(), 7)}},
                    network.parameters(), network);
    return trainer.run(callbacks);
  }
  static TrainingOptions options_of() {
    return {.gradient_accumulation_steps = 2, .max_steps = 20, .learning_rate = 1e-2};
  }
  static std::vector<std::int64_t> steps_in(const TrainingOptions& options) {
    return Checkpoints(options.output_dir).steps();
  }
  static std::string model(const std::string& folder) {
    return formats::read_file(folder + "/model.safetensors");
  }

  TemporaryFolder folder_;
};

TEST_F(EvaluationsTest, PatienceKeepsTheBestModel) {
  TrainingOptions wanted = options();
  wanted.early_stopping_patience = 3;
  const TrainingResult result = train(wanted, {0.5, 0.7, 0.6, 0.7, 0.1});
  EXPECT_TRUE(result.stopped_early);
  EXPECT_EQ(result.steps, 10);
  EXPECT_EQ(result.metric, "accuracy");
  EXPECT_EQ(result.best_metric, 0.7);
  EXPECT_EQ(result.best_step, 4);
  EXPECT_EQ(result.model_step, 4);
  EXPECT_EQ(result.metrics, (Metrics{{"accuracy", 0.7}}));
  EXPECT_EQ(result.best_checkpoint, wanted.output_dir + "/checkpoint-4");
  EXPECT_EQ(model(wanted.output_dir), model(wanted.output_dir + "/checkpoint-4"));
}

TEST_F(EvaluationsTest, TheBestIsNamedAlsoWhereItIsNotTaken) {
  const TrainingOptions wanted = options();
  const TrainingResult result = train(wanted, {0.5, 0.9, 0.6});
  EXPECT_EQ(result.best_metric, 0.9);
  EXPECT_EQ(result.best_step, 4);
  EXPECT_EQ(result.model_step, 20);
  EXPECT_EQ(result.best_checkpoint, "") << "no checkpoint was due";
}

TEST_F(EvaluationsTest, AMetricThatIsNoNumberIsNoGain) {
  TrainingOptions wanted = options();
  wanted.early_stopping_patience = 2;
  const double none = std::numeric_limits<double>::quiet_NaN();
  const TrainingResult result = train(wanted, {none, 0.5, none, none, 1});
  EXPECT_EQ(result.best_metric, 0.5);
  EXPECT_EQ(result.steps, 8);
}

TEST_F(EvaluationsTest, FewCheckpointsStayByDefault) {
  TrainingOptions wanted = options();
  wanted.save_steps = 2;
  train(wanted, {0.5, 0.9, 0.6});
  EXPECT_EQ(steps_in(wanted), (std::vector<std::int64_t>{4, 18, 20})) << "the best, the last two";
}

TEST_F(EvaluationsTest, TheTableOfEpochsIsThatOfAnUndisturbedTraining) {
  TrainingOptions whole = options("whole"), parts = options("parts");
  const TrainingResult expected = train(whole, {});
  // Epochs of four steps (seven micro-batches), evaluations after every second one.
  ASSERT_EQ(expected.epochs.size(), 10u);
  EXPECT_EQ(expected.epochs[1].step, 4);
  EXPECT_EQ(expected.epochs[1].epoch, 1.0);
  EXPECT_EQ(expected.epochs[1].metrics.size(), 1u);
  parts.save_steps = 3;
  train(parts, {}, {.stop = [n = 0]() mutable { return ++n == 7; }});
  parts.resume_from_checkpoint = "last";
  const TrainingResult found = train(parts, {});
  ASSERT_EQ(found.epochs.size(), expected.epochs.size());
  for (std::size_t i = 0; i < found.epochs.size(); ++i) {
    EXPECT_EQ(found.epochs[i].step, expected.epochs[i].step);
    EXPECT_EQ(found.epochs[i].loss, expected.epochs[i].loss);
    EXPECT_EQ(found.epochs[i].epoch, expected.epochs[i].epoch);
    EXPECT_EQ(found.epochs[i].metrics, expected.epochs[i].metrics);
    EXPECT_TRUE(found.epochs[i].seconds > 0);
  }
  const std::string log = formats::read_file(parts.output_dir + "/log.jsonl");
  EXPECT_EQ(log.rfind("{\"split\":\"a half\",\"step\":0}\n", 0), 0u) << log.substr(0, 80);
  EXPECT_EQ(log.find("split", 10), std::string::npos) << "the beginning is told once";
}

TEST_F(EvaluationsTest, EpochsWithoutEvaluationsHaveRows) {
  TrainingOptions wanted = options();
  wanted.eval_strategy = "no";
  const TrainingResult result = train(wanted, {});
  ASSERT_EQ(result.epochs.size(), 5u);
  EXPECT_EQ(result.epochs.back().step, 20);
  EXPECT_TRUE(result.epochs.back().metrics.empty());
  EXPECT_FALSE(result.best_metric.has_value());
}

TEST_F(EvaluationsTest, TheCardOfAUserStays) {
  TrainingOptions wanted = options();
  std::string told;
  const TrainingCallbacks callbacks = {.note = [&](const std::string& text) { told += text; }};
  train(wanted, {0.5}, callbacks);
  const fs::path readme = fs::path(wanted.output_dir) / "README.md";
  const fs::path other = fs::path(wanted.output_dir) / "model_card.md";
  EXPECT_TRUE(fs::exists(readme));
  EXPECT_EQ(told, "");
  // Ours is written anew, one that was edited is not.
  wanted.overwrite_output_dir = true;
  train(wanted, {0.75}, callbacks);
  const std::string card = formats::read_file(readme.string());
  EXPECT_NE(card.find("0.7500"), std::string::npos);
  EXPECT_NE(card.find("# a\\|b"), std::string::npos);
  EXPECT_EQ(told, "");
  formats::write_file(readme.string(), card + "more\n");
  train(wanted, {0.25}, callbacks);
  EXPECT_EQ(formats::read_file(readme.string()), card + "more\n");
  EXPECT_NE(formats::read_file(other.string()).find("0.2500"), std::string::npos);
  EXPECT_NE(told.find("README.md"), std::string::npos);
  EXPECT_NE(told.find("model_card.md"), std::string::npos);
  formats::write_file(other.string(), "mine");
  told.clear();
  train(wanted, {0.25}, callbacks);
  EXPECT_EQ(formats::read_file(other.string()), "mine");
  EXPECT_NE(told.find("no model card"), std::string::npos);
}

TEST(ModelCardTest, NamesThatMayBePublished) {
  EXPECT_EQ(public_name("/home/me/models/tuned"), "tuned");
  EXPECT_EQ(public_name("models/tuned/"), "tuned");
  EXPECT_EQ(public_name("/c/hub/models--org--a-name/snapshots/0123/"), "org/a-name");
  EXPECT_EQ(public_name("train.jsonl"), "train.jsonl");
}

TEST(ModelCardTest, OddNamesAreNoOtherYaml) {
  const std::string text = text_of({.verb = "finetune",
                                    .name = "x\": [\n--- \xff\x01",
                                    .base = "org/\"name\"",
                                    .library = "transformers",
                                    .tags = {"a: b"},
                                    .data = {{"file", "<script>|x\n| y"}},
                                    .labels = {{"*", "3"}}},
                                   {}, {}, {.metrics = {{"f1", 0.5}, {"nan", std::nan("")}}});
  const std::string front = text.substr(0, text.find("\n---\n", 4));
  EXPECT_NE(front.find("base_model: \"org/\\\"name\\\"\""), std::string::npos) << front;
  EXPECT_EQ(front.find("nan"), std::string::npos) << front;
  EXPECT_EQ(std::count(front.begin(), front.end(), '\x01'), 0);
  EXPECT_NE(text.find("| file | \\<script\\>\\|x \\| y |"), std::string::npos) << text;
  EXPECT_NE(text.find("| \\* | 3 |"), std::string::npos) << text;
}

}  // namespace
}  // namespace longformer::training::evaluations_test
