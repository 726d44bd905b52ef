// Weights that a training draws, because the folder does not have them (spec.md A.1, C.4, D).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "error_testing.h"
#include "models/checkpoint.h"
#include "models/tensor_names.h"

namespace longformer::models {
namespace {

const std::filesystem::path kFixtures = std::filesystem::path(__FILE__).parent_path() / "fixtures";

struct Moments {
  double mean = 0, deviation = 0;
};

Moments moments(const std::vector<float>& values) {
  double sum = 0, squares = 0;
  for (const float value : values) {
    sum += value;
    squares += double{value} * value;
  }
  const auto count = static_cast<double>(values.size());
  const double mean = sum / count;
  return {mean, std::sqrt(squares / count - mean * mean)};
}

std::vector<float> row(const Tensor& table, Index index) {
  return table.slice_rows(index, 1).to_floats();
}

TEST(DrawnWeights, AreOfTheirDistributions) {
  const auto weights = Checkpoint::trainable(
      Checkpoint::random(3),
      {.deviation = 0.05, .gain_deviation = 0.02, .zero_rows = {{kWordEmbeddings, 1}}});
  const Tensor words = weights.get(kWordEmbeddings, {200, 64});
  EXPECT_EQ(row(words, 1), std::vector<float>(64, 0.0f));
  const Moments of_words = moments(words.slice_rows(2, 198).to_floats());
  EXPECT_NEAR(of_words.mean, 0, 4 * 0.05 / std::sqrt(198.0 * 64));
  EXPECT_NEAR(of_words.deviation, 0.05, 0.002);
  const Moments gains = moments(weights.get("LayerNorm.weight", {4096}).to_floats());
  EXPECT_NEAR(gains.mean, 1, 4 * 0.02 / 64);
  EXPECT_NEAR(gains.deviation, 0.02, 0.001);
  EXPECT_EQ(weights.get("LayerNorm.bias", {8}).to_floats(), std::vector<float>(8, 0.0f));
}

TEST(DrawnWeights, GainsAreOneUnlessToldOtherwise) {
  const auto weights = Checkpoint::trainable(Checkpoint::random(3), {});
  EXPECT_EQ(weights.get("LayerNorm.weight", {9}).to_floats(), std::vector<float>(9, 1.0f));
}

TEST(DrawnWeights, ATableGrowsByRowsLikeItsOwn) {
  const auto file = Checkpoint::open((kFixtures / "tiny_roberta").string());
  const Shape stored = file.shape(kWordEmbeddings);
  const Shape grown = {stored[0] + 64, stored[1]};
  const auto weights = Checkpoint::trainable(file, {.seed = 5, .grown = {kWordEmbeddings}});
  const Tensor table = weights.get(kWordEmbeddings, grown);
  const Tensor before = file.stored_fp32(kWordEmbeddings);
  EXPECT_TRUE(table.slice_rows(0, stored[0]).copied().equals(before));
  const Moments old_rows = moments(before.to_floats());
  const Moments new_rows = moments(table.slice_rows(stored[0], 64).to_floats());
  const double error = old_rows.deviation / std::sqrt(64.0 * static_cast<double>(stored[1]));
  EXPECT_NEAR(new_rows.mean, old_rows.mean, 4 * error);
  EXPECT_NEAR(new_rows.deviation, old_rows.deviation, 4 * error);
  EXPECT_NE(row(table, stored[0]), row(table, stored[0] + 1));
  EXPECT_TRUE(weights.drawn().empty());
}

TEST(DrawnWeights, OtherTablesDoNotGrow) {
  const auto file = Checkpoint::open((kFixtures / "tiny_roberta").string());
  const Shape stored = file.shape(kWordEmbeddings);
  const auto weights = Checkpoint::trainable(file, {});
  expect_error(error_of([&] {
                 weights.get(kWordEmbeddings, {stored[0] + 1, stored[1]});
               }),
               {kWordEmbeddings, "expected shape"});
}

}  // namespace
}  // namespace longformer::models
