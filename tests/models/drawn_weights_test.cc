// Weights that a training draws, because the folder does not have them (docs/spec/encoder.md#a1,
// docs/spec/tasks.md#c4, docs/spec/language-models.md#d).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
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

TEST(DrawnWeights, ATableThatSeveralLayersHoldIsDrawnOnce) {
  const auto weights = Weights::drawn(3);
  const auto get = [&] { return weights.get(kWordEmbeddings, {30, 8}, Init::normal(0.02)); };
  Tensor words = get();
  EXPECT_TRUE(get().is_same_as(words));
  EXPECT_EQ(weights.get(kWordEmbeddings, {20, 8}, Init::normal(0.02)).shape(), Shape({20, 8}));
  words = get();
  const std::vector<float> before = words.to_floats();
  words = Tensor();
  // Another draw lets go of what nobody holds, so this is drawn again.
  const Tensor other = weights.get("other", {30, 8}, Init::normal(0.02));
  EXPECT_EQ(get().to_floats(), before);
  EXPECT_NE(other.to_floats(), before);
}

double largest(const std::vector<float>& values) {
  double most = 0;
  for (const float value : values) most = std::max(most, std::abs(double{value}));
  return most;
}

TEST(DrawnWeights, TruncatedOnesStayWithinTheirBound) {
  const auto weights = Weights::drawn(3);
  const auto deviation_within = [&](double cutoff) {
    const Tensor table =
        weights.get(fmt::format("table {}", cutoff), {100, 400}, Init::normal(0.05, -1, cutoff));
    EXPECT_LE(largest(table.to_floats()), 0.05 * cutoff * (1 + 1e-6)) << cutoff;
    const Moments found = moments(table.to_floats());
    EXPECT_NEAR(found.mean, 0, 4 * 0.05 / 200) << cutoff;
    return found.deviation / 0.05;
  };
  // √(1 − 2c·φ(c) / (2Φ(c) − 1)); of a narrow one it is that of a uniform distribution, c/√3.
  EXPECT_NEAR(deviation_within(2), 0.8796, 0.01);
  EXPECT_NEAR(deviation_within(1), 0.5396, 0.01);
  EXPECT_NEAR(deviation_within(3), 0.9866, 0.01);
  EXPECT_NEAR(deviation_within(1e-3), 1e-3 / std::sqrt(3.0), 2e-5);
}

/// Deviations of the tensors of an encoder that is drawn, by their names.
std::map<std::string, std::vector<float>> drawn_encoder(const std::string& text) {
  const auto json = nlohmann::ordered_json::parse(text);
  const EncoderConfig config = parse_config(formats::ConfigReader(json, "config.json"));
  const auto weights = Weights::trained(Weights::drawn(5, config.family->names), {});
  const Encoder encoder(config, weights, DType::f32);
  std::map<std::string, std::vector<float>> tensors;
  for (const auto& [name, tensor] : weights.parameters()) tensors[name] = tensor.to_floats();
  return tensors;
}

TEST(DrawnWeights, ModernBertsLayersBeginSmallerTheMoreThereAre) {
  const auto drawn = drawn_encoder(R"({"model_type": "modernbert", "hidden_size": 96,
      "num_hidden_layers": 8, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 120,
      "pad_token_id": 3, "initializer_range": 0.1, "initializer_cutoff_factor": 1})");
  const auto expect = [&](const std::string& name, double deviation) {
    ASSERT_TRUE(drawn.contains(name)) << name;
    EXPECT_NEAR(moments(drawn.at(name)).deviation / deviation, 0.5396, 0.02) << name;
    EXPECT_LE(largest(drawn.at(name)), deviation * (1 + 1e-6)) << name;
  };
  expect(kWordEmbeddings, 0.1);
  expect("encoder.layer.3.attention.self.query_key_value.weight", 0.1);
  expect("encoder.layer.3.intermediate.dense.weight", 0.1);
  expect("encoder.layer.3.attention.output.dense.weight", 0.1 / 4);
  expect("encoder.layer.3.output.dense.weight", 0.1 / 4);
  const std::vector<float>& words = drawn.at(kWordEmbeddings);
  EXPECT_GT(moments({words.begin() + 3 * 96, words.begin() + 4 * 96}).deviation, 0.02);
}

TEST(DrawnWeights, FunnelsMatricesBeginByTheirShapes) {
  const std::string begin = R"({"model_type": "funnel", "d_model": 64, "n_head": 4, "d_head": 24,
      "d_inner": 160, "block_sizes": [1], "num_decoder_layers": 1, "vocab_size": 120)";
  const auto drawn = drawn_encoder(begin + "}");
  const auto deviation = [](const auto& tensors, const std::string& name) {
    return moments(tensors.at(name)).deviation;
  };
  EXPECT_NEAR(deviation(drawn, kWordEmbeddings), 1, 0.03);
  const std::string up = "encoder.blocks.0.0.ffn.linear_1.weight";
  EXPECT_NEAR(deviation(drawn, up) * std::sqrt(64 + 160.0), 1, 0.03);
  const auto given = drawn_encoder(begin + R"(, "initializer_std": 0.03})");
  EXPECT_NEAR(deviation(given, kWordEmbeddings), 0.03, 0.001);
  EXPECT_NEAR(deviation(given, up), 0.03, 0.001);
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
