// Weights that a training draws, because the folder does not have them (docs/spec/encoder.md#a1,
// docs/spec/tasks.md#c4, docs/spec/language-models.md#d).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "error_testing.h"
#include "fixtures.h"
#include "models/encoder.h"
#include "models/registry.h"

namespace longformer::models::drawn_weights_test {
namespace {

const std::filesystem::path kFixtures = fixtures_folder();

const TensorNames& roberta_names() { return family_of("roberta", "").names; }

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
  const auto weights = Weights::trained(Weights::drawn(3), {});
  const Tensor words = weights.get(kWordEmbeddings, {200, 64}, Init::normal(0.05, 1));
  EXPECT_EQ(row(words, 1), std::vector<float>(64, 0.0f));
  const Moments of_words = moments(words.slice_rows(2, 198).to_floats());
  EXPECT_NEAR(of_words.mean, 0, 4 * 0.05 / std::sqrt(198.0 * 64));
  EXPECT_NEAR(of_words.deviation, 0.05, 0.002);
  const Moments gains = moments(weights.get("norm", {4096}, Init::gains(0.02)).to_floats());
  EXPECT_NEAR(gains.mean, 1, 4 * 0.02 / 64);
  EXPECT_NEAR(gains.deviation, 0.02, 0.001);
  EXPECT_EQ(weights.get("other", {9}, Init::gains()).to_floats(), std::vector<float>(9, 1.0f));
  EXPECT_EQ(weights.get("zeros", {8}, Init::zeros()).to_floats(), std::vector<float>(8, 0.0f));
}

TEST(DrawnWeights, ATensorBeginsAsItsModelSaysWhateverItsNameIs) {
  const auto weights = Weights::drawn(3);
  const Tensor bias = weights.get("attention.r_w_bias", {12, 64}, Init::normal(0.02));
  EXPECT_NEAR(moments(bias.to_floats()).deviation, 0.02, 0.002);
}

TEST(RecordingWeights, ListWhatAModelIsMadeOf) {
  const auto config = read_config((kFixtures / "tiny_roberta" / "config.json").string());
  const auto file = Weights::open((kFixtures / "tiny_roberta").string(), config.family->names);
  std::size_t found = 0;
  for (const auto& [name, shape] : encoder_tensors(config)) {
    EXPECT_EQ(file.shape(name), shape) << name;
    ++found;
  }
  const auto names = file.names();
  EXPECT_EQ(found, std::count_if(names.begin(), names.end(), [&](const std::string& name) {
              return is_of_encoder(name) && !file.is_buffer(name);
            }));
}

TEST(DrawnWeights, ATableGrowsByRowsLikeItsOwn) {
  const auto file = Weights::open((kFixtures / "tiny_roberta").string(), roberta_names());
  const Shape stored = file.shape(kWordEmbeddings);
  const Shape grown = {stored[0] + 64, stored[1]};
  const auto weights = Weights::trained(file, {.seed = 5, .grown = {kWordEmbeddings}});
  const Tensor table = weights.get(kWordEmbeddings, grown, Init::normal(0.02));
  const Tensor before = file.stored_fp32(kWordEmbeddings);
  EXPECT_TRUE(table.slice_rows(0, stored[0]).copied().equals(before));
  const Moments old_rows = moments(before.to_floats());
  const Moments new_rows = moments(table.slice_rows(stored[0], 64).to_floats());
  const double error = old_rows.deviation / std::sqrt(64.0 * static_cast<double>(stored[1]));
  EXPECT_NEAR(new_rows.mean, old_rows.mean, 4 * error);
  EXPECT_NEAR(new_rows.deviation, old_rows.deviation, 4 * error);
  EXPECT_NE(row(table, stored[0]), row(table, stored[0] + 1));
  EXPECT_TRUE(weights.drawn_parameters().empty());
}

TEST(DrawnWeights, OtherTablesDoNotGrow) {
  const auto file = Weights::open((kFixtures / "tiny_roberta").string(), roberta_names());
  const Shape stored = file.shape(kWordEmbeddings);
  const auto weights = Weights::trained(file, {});
  expect_error(error_of([&] {
                 weights.get(kWordEmbeddings, {stored[0] + 1, stored[1]}, Init::normal(0.02));
               }),
               {kWordEmbeddings, "expected shape"});
}

}  // namespace
}  // namespace longformer::models::drawn_weights_test
