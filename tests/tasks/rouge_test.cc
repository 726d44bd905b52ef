// ROUGE and the stemmer against rouge_score and NLTK (fixtures/make_rouge_cases.py), and the golden
// scores of docs/spec/tasks.md#c6-golden.
#include "tasks/writing/rouge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "fixtures.h"
#include "formats/json.h"
#include "tasks/writing/stemmer.h"

namespace longformer::tasks::rouge_test {
namespace {

constexpr double kTolerance = 1e-9;

const nlohmann::ordered_json& cases() {
  static const auto json =
      formats::read_json((fixtures_folder() / "rouge" / "cases.json").string());
  return json;
}

void expect_score(const RougeScore& found, const std::vector<double>& expected, double tolerance,
                  const std::string& what) {
  EXPECT_TRUE(std::abs(found.precision - expected[0]) <= tolerance) << what << found.precision;
  EXPECT_TRUE(std::abs(found.recall - expected[1]) <= tolerance) << what << found.recall;
  EXPECT_TRUE(std::abs(found.f - expected[2]) <= tolerance) << what << found.f;
}

TEST(Stemmer, EqualsNltk) {
  int count = 0;
  for (const auto& [word, expected] : cases()["stems"].items()) {
    EXPECT_EQ(stem(word), expected.get<std::string>()) << word;
    ++count;
  }
  EXPECT_GT(count, 2000);
}

TEST(Rouge, EqualsThePackage) {
  for (const auto& pair : cases()["pairs"]) {
    const RougeScores found = rouge(pair["target"], pair["prediction"], pair["stems"]);
    for (std::size_t i = 0; i < found.size(); ++i) {
      expect_score(found[i], pair["scores"][i], kTolerance,
                   std::string(kRougeNames[i]) + " of " + pair["target"].dump() + ": ");
    }
  }
}

TEST(Rouge, GoldenScores) {
  const RougeScores fox = rouge("The quick brown fox jumps over the lazy dog",
                                "The quick brown dog jumps on the log.", false);
  expect_score(fox[0], {.75, .666667, .705882}, 1e-6, "rouge1 ");
  expect_score(fox[1], {.285714, .25, .266667}, 1e-6, "rouge2 ");
  expect_score(fox[2], {.625, .555556, .588235}, 1e-6, "rougeL ");
  const RougeScores lines = rouge("a b c d\nc d e", "c d\na d c", true);
  expect_score(lines[0], {1, .714286, .833333}, 1e-6, "rouge1 ");
  expect_score(lines[2], {.6, .428571, .5}, 1e-6, "rougeL ");
  expect_score(lines[3], {1, .714286, .833333}, 1e-6, "rougeLsum ");
  for (const RougeScore& score : rouge("", "fox", false)) expect_score(score, {0, 0, 0}, 0, "");
}

TEST(Rouge, LettersThatBecomeAscii) {
  const std::string text = "\u212Aelvin \u0130stanbul na\u00EFve";
  EXPECT_EQ(rouge_tokens(text, false),
            (std::vector<std::string>{"kelvin", "i", "stanbul", "na", "ve"}));
}

TEST(Rouge, IntervalsAreThoseOfThePackage) {
  std::vector<RougeScores> documents;
  for (std::size_t i = 0; i < 40; ++i) {
    const auto& pair = cases()["pairs"][i];
    documents.push_back(rouge(pair["target"], pair["prediction"], pair["stems"]));
  }
  const auto intervals = bootstrap(documents, 1);
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    const std::vector<double> expected = cases()["intervals_of_40"][i];
    EXPECT_TRUE(std::abs(intervals[i].low - expected[0]) <= kTolerance) << kRougeNames[i];
    EXPECT_TRUE(std::abs(intervals[i].middle - expected[1]) <= kTolerance) << kRougeNames[i];
    EXPECT_TRUE(std::abs(intervals[i].high - expected[2]) <= kTolerance) << kRougeNames[i];
  }
}

}  // namespace
}  // namespace longformer::tasks::rouge_test
