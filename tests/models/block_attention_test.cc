// BigBird: the blocks that it draws while training, as numpy draws them
// (tests/fixtures/make_random_blocks.py), and the parts of its softmax against what each token sees
// (docs/spec/other-attentions.md#h1); and those of PegasusX.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "kernels/reference.h"
#include "models/attention/bigbird.h"
#include "models/attention/global_local.h"
#include "models/attention/random_blocks.h"
#include "models/block_families.h"
#include "models/encoder.h"

namespace longformer::models::block_attention_test {
namespace {

TEST(RandomBlocks, AreThoseOfNumpy) {
  std::ifstream file(fixtures_folder() / "random_blocks.json");
  const auto plans = nlohmann::json::parse(file);
  ASSERT_GE(plans.size(), 6u);
  for (const auto& plan : plans) {
    const auto found = random_blocks({.block = plan.at("block"),
                                      .count = plan.at("count"),
                                      .heads = plan.at("heads"),
                                      .longest = plan.at("longest"),
                                      .seed = plan.at("layer")},
                                     plan.at("blocks"));
    EXPECT_EQ(found, plan.at("drawn").get<std::vector<Index>>()) << plan.at("blocks");
  }
}

/// Texts of 1,024 tokens in blocks of 256 have no block left for the second of their rows.
TEST(RandomBlocks, TooFewToDrawFromAreRefused) {
  const std::string message = error_of(
      [] { random_blocks({.block = 256, .count = 3, .heads = 1, .longest = 1024, .seed = 0}, 4); });
  EXPECT_NE(message.find("num_random_blocks 3"), std::string::npos) << message;
}

/// How often each key counts for each query, from the specs of all parts.
std::vector<double> counted(const std::vector<kernels::AttentionSpec>& specs, Index n) {
  std::vector<double> times(static_cast<std::size_t>(n * n));
  for (const auto& spec : specs) {
    for (const auto& document : spec.rows->documents) {
      for (Index i = document.query_begin; i < document.query_begin + document.query_count; ++i) {
        for (Index j = document.key_begin; j < document.key_begin + document.key_count; ++j) {
          const bool seen = kernels::sees(spec, document, 0, i, j);
          times[i * n + j] += seen ? std::exp(static_cast<double>(spec.log_weight)) : 0;
        }
      }
    }
  }
  return times;
}

/// How often token j counts for token i of a text of n tokens, by blocks.
double expected(const BlockRecipe& blocks, Index n, Index i, Index j, bool draws) {
  if (n <= most_dense_tokens(blocks)) return 1;
  const Index last = (n - 1) / blocks.size, from = i / blocks.size, to = j / blocks.size;
  if (from == 0 || from == last) return 1;
  if (to == 0) return draws ? 1 : 1.0 + static_cast<double>(blocks.random);
  return to == last || std::abs(from - to) <= 1 ? 1 : 0;
}

TEST(BlockSpecs, CountEachKeyAsOftenAsTheModelDoes) {
  const BlockRecipe blocks = {.size = 4, .random = 2};
  // Dense, just longer, a last block of one token, whole blocks.
  const std::vector<Index> lengths = {36, 37, 61, 1, 64};
  std::vector<Index> starts = {0};
  for (const Index length : lengths) starts.push_back(starts.back() + length);
  const Index n = starts.back();
  auto all = kernels::self_attention_rows(starts);
  all.self_attention = false;
  all.key_mask.assign(static_cast<std::size_t>(n), 1);
  for (const Index masked : {3, 40, 41, 97, 132, 198}) all.key_mask[masked] = 0;
  const auto rows = kernels::shared(all);
  const kernels::AttentionPattern dense = {
      .head_size = 8, .heads = {{kernels::kUnlimitedReach, kernels::kUnlimitedReach}}};
  for (const bool draws : {false, true}) {
    const auto specs = block_specs(dense, blocks, rows, draws);
    for (const auto& spec : specs) {
      check(spec);
      EXPECT_EQ(spec.rows->query_count(), n);
      EXPECT_EQ(spec.rows->key_count(), n);
    }
    const std::vector<double> found = counted(specs, n);
    for (std::size_t text = 0; text < lengths.size(); ++text) {
      const auto term = block_term(blocks, lengths[text]);
      for (Index i = 0; i < lengths[text]; ++i) {
        for (Index row = 0; row < n; ++row) {
          const Index j = row - starts[text];
          const bool in_text = j >= 0 && j < lengths[text] && all.key_mask[row] != 0;
          const double right = in_text ? expected(blocks, lengths[text], i, j, draws) : 0;
          ASSERT_NEAR(found[(starts[text] + i) * n + row], right, 1e-6)
              << "text " << text << ", token " << i << ", key " << j;
          if (in_text && !draws && term) {
            ASSERT_NEAR(std::exp(static_cast<double>(term(i, j))), right, 1e-6);
          }
        }
      }
    }
  }
}

/// Whether row j is a key of row i, in texts of these lengths and their global rows behind them.
bool global_local_sees(const GlobalLocalRecipe& recipe, const std::vector<Index>& starts, Index i,
                       Index j, Index earlier) {
  const Index n = starts.back();
  const auto text_of = [&](Index row) {
    if (row >= n) return (row - n) / recipe.globals;
    Index text = 0;
    while (starts[static_cast<std::size_t>(text) + 1] <= row) ++text;
    return text;
  };
  if (text_of(i) != text_of(j)) return false;
  if (i >= n || j >= n) return true;
  const Index first = starts[static_cast<std::size_t>(text_of(i))] - earlier;
  return (i - first) / recipe.block == (j - first) / recipe.block;
}

TEST(GlobalLocalSpecs, CountEachKeyOnce) {
  const GlobalLocalRecipe recipe = {.block = 6, .globals = 2};
  const std::vector<Index> starts = {0, 13, 14, 17, 29};
  const Index n = starts.back(), all = n + 4 * recipe.globals;
  auto rows = kernels::self_attention_rows(starts);
  rows.key_mask.assign(static_cast<std::size_t>(n), 1);
  for (const Index masked : {2, 16, 28}) rows.key_mask[masked] = 0;
  const kernels::AttentionPattern dense = {
      .head_size = 8, .heads = {{kernels::kUnlimitedReach, kernels::kUnlimitedReach}}};
  for (const bool is_staggered : {false, true}) {
    const auto specs = global_local_specs(dense, recipe, rows, is_staggered);
    for (const auto& spec : specs) {
      check(spec);
      EXPECT_EQ(spec.rows->query_count(), all);
      EXPECT_EQ(spec.rows->key_count(), all);
    }
    const std::vector<double> found = counted(specs, all);
    for (Index i = 0; i < all; ++i) {
      for (Index j = 0; j < all; ++j) {
        const bool is_masked = j < n && rows.key_mask[static_cast<std::size_t>(j)] == 0;
        const bool sees = global_local_sees(recipe, starts, i, j, is_staggered ? 3 : 0);
        ASSERT_EQ(found[static_cast<std::size_t>(i * all + j)], sees && !is_masked ? 1 : 0)
            << i << ", " << j << ", " << is_staggered;
      }
    }
  }
}

TEST(BlockSpecs, ShortTextsNeedOnePart) {
  const auto rows = kernels::shared(kernels::self_attention_rows(std::vector<Index>{0, 700, 704}));
  const kernels::AttentionPattern dense = {
      .head_size = 8, .heads = {{kernels::kUnlimitedReach, kernels::kUnlimitedReach}}};
  const auto specs = block_specs(dense, {}, rows, true);
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_EQ(specs[0].rows, rows);
}

/// 22 tokens through a model that drops nothing, in use or in training.
std::vector<float> states(const char* random_blocks, bool trains) {
  const auto folder = fixtures_folder() / "tiny_big_bird_model";
  auto json = formats::read_json((folder / "config.json").string());
  json["hidden_dropout_prob"] = json["attention_probs_dropout_prob"] = 0;
  if (random_blocks != nullptr) json[kRandomBlocksKey] = random_blocks;
  const EncoderConfig config = parse_config(formats::ConfigReader(json, "config.json"));
  const Weights weights = Weights::open(folder.string(), config.family->names);
  const Encoder encoder(config, weights, DType::f32);
  Batch batch;
  batch.starts = {0, 22};
  for (std::int32_t i = 0; i < 22; ++i) batch.ids.push_back(5 + 7 * i % 50);
  batch.types.assign(batch.ids.size(), 0);
  batch.positions = position_rows(config, batch.ids);
  MemoryPool pool;
  ops::Context context{.memory = pool};
  if (trains) context.dropout_seed = 1;
  return encoder.forward(context, batch).to_floats();
}

TEST(RandomBlocks, AreDrawnInTrainingUnlessTheFolderSaysNone) {
  const auto in_use = states(nullptr, false);
  EXPECT_EQ(states("none", true), in_use);
  EXPECT_EQ(states("none", false), in_use);
  EXPECT_EQ(states("seeded", false), in_use);
  EXPECT_NE(states("seeded", true), in_use);
  EXPECT_EQ(states(nullptr, true), states("seeded", true));
  const std::string message = error_of([] { states("some", true); });
  EXPECT_NE(message.find("random_blocks: expected seeded, none"), std::string::npos) << message;
}

}  // namespace
}  // namespace longformer::models::block_attention_test
