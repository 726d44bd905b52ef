// TextGenerator: what it tells while it writes, how it ends, and what texts look at
// (fixtures/make_sequence_models.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "longformer/generation.h"
#include "temporary_folder.h"

namespace longformer::text_generator_test {
namespace {

namespace fs = std::filesystem;

const fs::path kFixtures = fixtures_folder();

class TextGeneratorTest : public testing::TestWithParam<std::string> {
 protected:
  TextGeneratorTest() {
    fs::copy(kFixtures / GetParam(), folder_.path() / "model");
    for (const char* file : {"vocab.json", "merges.txt"}) {
      fs::copy(kFixtures / "tiny_roberta" / file, folder_.path() / "model" / file);
    }
    expected_ = formats::read_json((folder_.path() / "model" / "expected.json").string());
    for (const auto& text : expected_["texts"]) texts_.push_back(text.get<std::string>());
  }
  TextGenerator load() const { return TextGenerator::load((folder_.path() / "model").string()); }

  TemporaryFolder folder_;
  nlohmann::ordered_json expected_;
  std::vector<std::string> texts_;
};

TEST_P(TextGeneratorTest, WhatItTellsIsTheText) {
  const TextGenerator generator = load();
  for (const int beams : {1, 3}) {
    GenerationRequest request;
    request.options.num_beams = beams;
    request.options.max_length = 20;
    std::map<std::int64_t, std::string> told;
    std::int64_t read = 0, last = 0;
    const auto results = generator.generate(texts_, request, [&](const GenerationEvent& event) {
      if (event.document >= 0) told[event.document] += event.text;
      EXPECT_GE(event.tokens_written, last);
      last = event.tokens_written;
      read = event.documents_read;
      return true;
    });
    EXPECT_EQ(read, std::ssize(texts_));
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      EXPECT_EQ(told[static_cast<std::int64_t>(i)], results[i].texts[0].text);
    }
  }
}

TEST_P(TextGeneratorTest, PassesAndStepsAreReported) {
  std::vector<PassReport> passes;
  LoadOptions options;
  options.pass = [&passes](const PassReport& pass) { passes.push_back(pass); };
  const TextGenerator generator = TextGenerator::load((folder_.path() / "model").string(), options);
  GenerationRequest request;
  request.options.num_beams = 3;
  request.options.max_length = 6;
  request.prompt = {4, 5};
  const auto result = generator.generate(std::span(texts_).first(1), request).at(0);
  ASSERT_GE(passes.size(), 2u);
  EXPECT_EQ(passes[0].documents, 1);
  EXPECT_EQ(passes[0].tokens, result.source_tokens);
  // The first step reads the start token and the prompt of one beam.
  EXPECT_EQ(passes[1].documents, 1);
  EXPECT_EQ(passes[1].tokens, 3);
  for (std::size_t i = 2; i < passes.size(); ++i) {
    EXPECT_LE(passes[i].documents, 3);
    EXPECT_EQ(passes[i].tokens, passes[i].documents);
    EXPECT_GT(passes[i].seconds, 0);
  }
  EXPECT_LE(passes.size(), 4u);
}

TEST_P(TextGeneratorTest, AStopEndsTextsAsTheyAre) {
  const TextGenerator generator = load();
  GenerationRequest request;
  request.options.max_length = 20;
  request.together = 2;
  const auto whole = generator.generate(texts_, request);
  const auto cut = generator.generate(
      texts_, request, [](const GenerationEvent& event) { return event.tokens_written < 8; });
  for (std::size_t i = 0; i < 2; ++i) {
    const WrittenText& text = cut[i].texts.at(0);
    EXPECT_EQ(text.end, "interrupted");
    ASSERT_LT(text.ids.size(), whole[i].texts[0].ids.size());
    EXPECT_TRUE(std::equal(text.ids.begin(), text.ids.end(), whole[i].texts[0].ids.begin()));
  }
  // A document that was not read has neither text nor error.
  EXPECT_TRUE(cut[3].texts.empty() && cut[3].error.empty());
}

TEST_P(TextGeneratorTest, DocumentsThatFollowEachOtherAreAsAlone) {
  const TextGenerator generator = load();
  std::vector<std::string> many;
  for (int i = 0; i < 11; ++i) many.push_back(texts_[static_cast<std::size_t>(i) % texts_.size()]);
  GenerationRequest request;
  request.options.num_beams = 2;
  request.options.length_penalty = 0.5;
  for (const std::int64_t together : {1, 3, 8}) {
    request.together = together;
    const auto results = generator.generate(many, request);
    for (std::size_t i = 0; i < many.size(); ++i) {
      const auto alone = generator.generate(std::vector<std::string>{many[i]}, request)[0];
      EXPECT_EQ(results[i].texts[0].ids, alone.texts[0].ids) << together << ", " << i;
      EXPECT_EQ(results[i].texts[0].score, alone.texts[0].score);
    }
  }
}

TEST_P(TextGeneratorTest, OneSegmentIsNoSplit) {
  const TextGenerator generator = load();
  GenerationRequest request;
  const auto whole = generator.generate(texts_, request);
  request.too_long = TooLong::split;
  const auto split = generator.generate(texts_, request);
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    EXPECT_EQ(split[i].segments, 1);
    EXPECT_EQ(split[i].texts[0].ids, whole[i].texts[0].ids);
  }
}

TEST_P(TextGeneratorTest, ATextLooksAtWhatTransformersSays) {
  const TextGenerator generator = load();
  SourceAttentionOptions options;
  if (generator.info().has_global_attention) {
    options.global_attention = GlobalAttention::parse("cls");
  }
  const std::string summary = expected_["summary"].get<std::string>();
  const SourceAttention found = generator.source_attention(texts_[0], summary, options);
  const auto& rows = expected_["looked_at"];
  ASSERT_EQ(found.text.ids.size(), rows.size());
  for (std::size_t t = 0; t < rows.size(); ++t) {
    ASSERT_EQ(found.document.ids.size(), rows[t].size());
    for (std::size_t i = 0; i < rows[t].size(); ++i) {
      const double wanted = rows[t][i].get<double>();
      const double value = found.weights[t * rows[t].size() + i];
      EXPECT_TRUE(std::abs(value - wanted) <= 1e-5) << t << ", " << i << ": " << value;
    }
  }
  options.layers = {7};
  expect_error(error_of([&] { generator.source_attention(texts_[0], summary, options); }),
               {"layer", "7"});
  expect_error(error_of([&] { generator.source_attention(texts_[0], "", {}); }), {"text", "none"});
}

INSTANTIATE_TEST_SUITE_P(All, TextGeneratorTest,
                         testing::Values("tiny_led", "tiny_bart", "tiny_bigbird_pegasus",
                                         "tiny_pegasus", "tiny_pegasus_x", "tiny_mbart"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace longformer::text_generator_test
