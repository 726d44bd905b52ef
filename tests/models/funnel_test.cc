// Funnel Transformer: its config.json, how many rows blocks have, and what tokens they are made of
// (docs/spec/other-attentions.md#funnel). What `transformers` computes is in tests/api and
// tests/engine (tiny_funnel*).
#include "models/funnel.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "error_testing.h"
#include "formats/json.h"
#include "models/registry.h"

namespace longformer::models::funnel_test {
namespace {

EncoderConfig parsed(const std::string& keys) {
  const std::string text = R"({"model_type": "funnel")" + keys + "}";
  const auto object = formats::parse_json(text, "config.json");
  return parse_config(formats::ConfigReader(object, "config.json"));
}

TEST(FunnelConfig, TakesTheClassDefaultsOfTransformers) {
  const EncoderConfig config = parsed("");
  EXPECT_EQ(config.vocab_size, 30522);
  EXPECT_EQ(config.hidden_size, 768);
  EXPECT_EQ(config.heads, 12);
  EXPECT_EQ(config.head_size(), 64);
  EXPECT_EQ(config.intermediate_size, 3072);
  EXPECT_EQ(config.activation, Activation::gelu_tanh);
  EXPECT_EQ(config.layer_norm_eps, 1e-9);
  EXPECT_EQ(config.type_vocab_size, 3);
  EXPECT_FALSE(config.recipe.has_position_table || config.recipe.has_type_table);
  EXPECT_FALSE(config.recipe.has_padding_row);
  EXPECT_EQ(config.layers, 14);
  EXPECT_EQ(config.patterns.size(), 14u);
  const FunnelRecipe& funnel = *config.recipe.funnel;
  EXPECT_EQ(funnel.block_sizes, (std::vector<Index>{4, 4, 4}));
  EXPECT_TRUE(funnel.has_decoder && funnel.separates_first && funnel.drops_last &&
              funnel.pools_queries_only);
  EXPECT_FALSE(funnel.takes_largest);
  EXPECT_EQ(config.unused_keys, "");
}

TEST(FunnelConfig, ReadsWhatIsWritten) {
  const EncoderConfig config = parsed(
      R"(, "d_model": 30, "n_head": 3, "d_head": 7, "d_inner": 11, "block_sizes": [2, 1],
          "block_repeats": [1, 3], "num_decoder_layers": 1, "pooling_type": "max",
          "attention_type": "factorized", "separate_cls": false, "truncate_seq": false,
          "pool_q_only": false, "hidden_dropout": 0.2, "attention_dropout": 0.3,
          "activation_dropout": 0.25, "pad_token_id": 0, "initializer_std": null,
          "initializer_range": 0.05, "hidden_act": "relu", "type_vocab_size": 3,
          "max_position_embeddings": 300, "num_hidden_layers": 12)");
  EXPECT_EQ(config.query_width(), 21);
  EXPECT_EQ(config.layers, 2 + 3 + 1);
  EXPECT_EQ(config.activation, Activation::relu);
  EXPECT_EQ(config.hidden_dropout, 0.2);
  EXPECT_EQ(config.attention_dropout, 0.3);
  EXPECT_EQ(config.activation_dropout, 0.25);
  EXPECT_EQ(config.max_tokens(), 300);
  EXPECT_TRUE(config.recipe.has_padding_row);
  const FunnelRecipe& funnel = *config.recipe.funnel;
  EXPECT_TRUE(funnel.takes_largest);
  EXPECT_FALSE(funnel.separates_first || funnel.drops_last || funnel.pools_queries_only);
  EXPECT_EQ(funnel.term_range, 0.05);
  EXPECT_EQ(description_of(funnel),
            "blocks of 2 + 1x3 layers, each with half the rows of the one before, and 1 layers "
            "over all tokens");
}

TEST(FunnelConfig, HeadsOfDocumentsHaveNoDecoder) {
  for (const char* name : {"BaseModel", "ForSequenceClassification", "ForMultipleChoice"}) {
    const EncoderConfig config = parsed(fmt::format(R"(, "architectures": ["Funnel{}"])", name));
    EXPECT_FALSE(config.recipe.funnel->has_decoder) << name;
    EXPECT_EQ(config.layers, 12) << name;
  }
  for (const char* name : {"Model", "ForPreTraining", "ForMaskedLM", "ForTokenClassification"}) {
    EXPECT_TRUE(
        parsed(fmt::format(R"(, "architectures": ["Funnel{}"])", name)).recipe.funnel->has_decoder)
        << name;
  }
}

TEST(FunnelConfig, WhatDoesNotFitIsRefused) {
  const auto refused = [](const std::string& keys, const char* part) {
    expect_error(error_of([&] { parsed(", " + keys); }), {"config.json", part});
  };
  refused(R"("block_sizes": [])", "block_sizes: expected a list of numbers, found []");
  refused(R"("block_sizes": 4)", "block_sizes: expected a list of numbers, found 4");
  refused(R"("block_sizes": [4, 0])", "block_sizes: expected whole numbers from 1 to");
  refused(R"("block_sizes": [4, 4], "block_repeats": [1])",
          "block_repeats: expected 2 numbers, as block_sizes has, found 1");
  refused(R"("pooling_type": "min")", "pooling_type: expected mean, max, found \"min\"");
  refused(R"("attention_type": "full")",
          "attention_type: expected relative_shift, factorized, found \"full\"");
  refused(R"("d_model": 15)", "d_model: expected an even number");
  refused(R"("d_head": 0)", "d_head");
  refused(R"("num_decoder_layers": -1)", "num_decoder_layers");
  refused(R"("activation_dropout": 1)", "activation_dropout");
  refused(R"("separate_cls": 1)", "separate_cls");
  EXPECT_NE(parsed(R"(, "rel_attn_type": "other")").unused_keys.find("rel_attn_type"),
            std::string::npos);
}

/// The way of `transformers`: the first token stays, and the last is left out.
TEST(FunnelRows, AreHalfOfThoseBefore) {
  FunnelRecipe recipe = {.block_sizes = {1, 1, 1, 1}, .block_repeats = {1, 1, 1, 1}};
  const auto lengths = [&](Index n) { return funnel_lengths(recipe, n); };
  using Lengths = std::vector<Index>;
  EXPECT_EQ(lengths(1), (Lengths{1, 1, 1, 1}));
  EXPECT_EQ(lengths(2), (Lengths{2, 2, 2, 2}));
  EXPECT_EQ(lengths(3), (Lengths{3, 2, 2, 2}));
  EXPECT_EQ(lengths(19), (Lengths{19, 10, 5, 3}));
  EXPECT_EQ(lengths(512), (Lengths{512, 256, 128, 64}));
  recipe.drops_last = false;
  EXPECT_EQ(lengths(8), (Lengths{8, 5, 3, 2}));
  EXPECT_EQ(lengths(9), (Lengths{9, 5, 3, 2}));
  recipe.separates_first = false;
  EXPECT_EQ(lengths(9), (Lengths{9, 5, 3, 2}));
  EXPECT_EQ(lengths(1), (Lengths{1, 1, 1, 1}));
}

TEST(FunnelRows, AreMadeOfTokens) {
  FunnelRecipe recipe = {.block_sizes = {1, 1, 1}, .block_repeats = {1, 1, 1}};
  using Rows = std::vector<Index>;
  EXPECT_EQ(token_rows(recipe, 8, 0), (Rows{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(token_rows(recipe, 8, 1), (Rows{0, 1, 1, 2, 2, 3, 3, -1}));
  EXPECT_EQ(token_rows(recipe, 8, 2), (Rows{0, 1, 1, 1, 1, -1, -1, -1}));
  recipe.separates_first = false;
  EXPECT_EQ(token_rows(recipe, 7, 2), (Rows{0, 0, 0, 0, 1, 1, 1}));
}

/// Two rows read four: tokens look where their rows do, and share what the key of a row gets.
TEST(FunnelRows, ShareProbabilities) {
  FunnelRecipe recipe = {.block_sizes = {1, 1}, .block_repeats = {1, 2}, .has_decoder = false};
  const std::vector<float> first = {0.1f, 0.2f, 0.3f, 0.4f, 0.4f, 0.3f, 0.2f, 0.1f};
  const auto pooling = token_probabilities(recipe, 1, 4, first);
  EXPECT_EQ(std::vector<float>(pooling.begin(), pooling.begin() + 4),
            (std::vector<float>{0.1f, 0.2f, 0.3f, 0.4f}));
  EXPECT_EQ(std::vector<float>(pooling.end() - 4, pooling.end()),
            (std::vector<float>{0.4f, 0.3f, 0.2f, 0.1f}));
  const auto inside =
      token_probabilities(recipe, 2, 4, std::vector<float>{0.25f, 0.75f, 0.5f, 0.5f});
  EXPECT_EQ(std::vector<float>(inside.begin(), inside.begin() + 4),
            (std::vector<float>{0.25f, 0.375f, 0.375f, 0.0f}));
  ASSERT_EQ(inside.size(), 16u);
}

}  // namespace
}  // namespace longformer::models::funnel_test
