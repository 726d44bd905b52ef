// Metrics against scikit-learn, scipy, seqeval and the rules of the SQuAD scripts
// (tests/fixtures/make_task_fixtures.py).
#include "engine/frame/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "error_testing.h"
#include "fixtures.h"
#include "tasks/engine_names.h"
#include "tasks/question_answering/answer_metrics.h"

namespace longformer::tasks::metrics_test {
namespace {

using Json = nlohmann::json;

const Json& fixture() {
  static const Json value = [] {
    const auto folder = fixtures_folder() / "tasks";
    return Json::parse(std::ifstream(folder / "metrics.json"));
  }();
  return value;
}

void expect_close(double found, const Json& expected) {
  EXPECT_TRUE(std::abs(found - expected.get<double>()) <= 1e-6) << found << " " << expected;
}

void expect_scores(const LabelScores& found, const Json& expected, std::size_t first) {
  expect_close(found.precision, expected[first]);
  expect_close(found.recall, expected[first + 1]);
  expect_close(found.f1, expected[first + 2]);
}

void expect_metrics(const ClassificationMetrics& found, const Json& expected) {
  expect_close(found.accuracy, expected["accuracy"]);
  expect_scores(found.micro, expected["micro"], 0);
  expect_scores(found.macro, expected["macro"], 0);
  expect_scores(found.weighted, expected["weighted"], 0);
  ASSERT_EQ(found.labels.size(), expected["labels"].size());
  for (std::size_t i = 0; i < found.labels.size(); ++i) {
    EXPECT_EQ(found.labels[i].label, expected["labels"][i][0].get<std::string>());
    expect_scores(found.labels[i], expected["labels"][i], 1);
    EXPECT_EQ(found.labels[i].support, expected["labels"][i][4].get<std::int64_t>());
  }
}

std::vector<std::string> strings(const Json& list) { return list.get<std::vector<std::string>>(); }
std::vector<float> floats(const Json& list) { return list.get<std::vector<float>>(); }

template <typename Value>
std::vector<Value> flat(const Json& rows) {
  std::vector<Value> values;
  for (const Json& row : rows) {
    for (const Json& value : row) values.push_back(value.get<Value>());
  }
  return values;
}

TEST(Metrics, OfClasses) {
  for (const Json& one : fixture()["classes"]) {
    expect_metrics(class_metrics(one["predicted"].get<std::vector<std::int32_t>>(),
                                 one["expected"].get<std::vector<std::int32_t>>(),
                                 strings(fixture()["labels"])),
                   one["metrics"]);
  }
}

TEST(Metrics, LeaveOutWhatHasNoLabel) {
  const std::vector<std::int32_t> predicted = {0, 1, 1}, expected = {0, -100, 0};
  const std::vector<std::string> labels = {"a", "b"};
  const auto metrics = class_metrics(predicted, expected, labels);
  EXPECT_EQ(metrics.accuracy, 0.5);
  EXPECT_EQ(metrics.micro.support, 2);
  EXPECT_EQ(metrics.labels[0].recall, 0.5);
}

TEST(Metrics, OfSeveralLabels) {
  for (const Json& one : fixture()["multi_label"]) {
    expect_metrics(multi_label_metrics(flat<float>(one["scores"]), flat<float>(one["expected"]),
                                       strings(fixture()["labels"]), one["threshold"].get<float>()),
                   one["metrics"]);
  }
}

TEST(Metrics, OfNumbers) {
  for (const Json& one : fixture()["regression"]) {
    const auto found = regression_metrics(floats(one["predicted"]), floats(one["expected"]));
    expect_close(found.mean_squared_error, one["mean_squared_error"]);
    expect_close(found.mean_absolute_error, one["mean_absolute_error"]);
    expect_close(found.pearson, one["pearson"]);
    expect_close(found.spearman, one["spearman"]);
  }
  const std::vector<float> same = {1, 1}, other = {1, 2};
  EXPECT_TRUE(std::isnan(regression_metrics(same, other).pearson));
}

TEST(Metrics, OfEntities) {
  for (const Json& one : fixture()["entities"]) {
    SCOPED_TRACE(one["scheme"].get<std::string>());
    EntityCounter counter;
    for (std::size_t i = 0; i < one["expected"].size(); ++i) {
      counter.add(strings(one["predicted"][i]), strings(one["expected"][i]));
    }
    expect_metrics(counter.metrics(), one["metrics"]);
  }
}

TEST(Metrics, LabelsWithoutPrefixAreInside) {
  const std::vector<std::string> labels = {"PER", "PER", "LOC", "O", "Birth"};
  const std::vector<LabelledRange> expected = {{"PER", 0, 2}, {"LOC", 2, 3}, {"Birth", 4, 5}};
  EXPECT_EQ(entities_of(labels), expected);
}

TEST(Metrics, OfAnswers) {
  AnswerCounter counter;
  double exact = 0, f1 = 0;
  for (const Json& one : fixture()["answers"]) {
    const auto predicted = one["predicted"].get<std::string>();
    SCOPED_TRACE(predicted);
    EXPECT_EQ(normalized_answer(predicted), one["normalized"].get<std::string>());
    const auto found = score_answer(predicted, strings(one["expected"]));
    expect_close(found.exact_match, one["exact_match"]);
    expect_close(found.f1, one["f1"]);
    counter.add(predicted, strings(one["expected"]));
    exact += one["exact_match"].get<double>();
    f1 += one["f1"].get<double>();
  }
  const auto count = static_cast<double>(fixture()["answers"].size());
  EXPECT_EQ(counter.questions(), static_cast<std::int64_t>(count));
  EXPECT_EQ(counter.unanswerable(), 3);
  EXPECT_TRUE(std::abs(counter.all().exact_match - 100 * exact / count) <= 1e-9);
  EXPECT_TRUE(std::abs(counter.all().f1 - 100 * f1 / count) <= 1e-9);
  EXPECT_TRUE(std::abs(counter.unanswerable_scores().f1 - 200.0 / 3) <= 1e-9);
}

TEST(Metrics, WantAPredictionForEach) {
  const std::vector<std::string> two = {"O", "O"}, one = {"O"};
  EntityCounter counter;
  expect_error(error_of([&] { counter.add(one, two); }), {"expected 2 predictions", "found 1"});
}

}  // namespace
}  // namespace longformer::tasks::metrics_test
