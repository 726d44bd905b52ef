// Texts that are given as tokens, and reports of passes and of tokenization.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fixtures.h"
#include "longformer/embedding.h"
#include "longformer/search.h"

namespace longformer::embed_input_test {
namespace {

const std::string kFolder = (fixtures_folder() / "sentence_dense").string();
const std::vector<std::string> kTexts = {"it was in the hand", "xyzzy they were", "xyzzy"};

std::vector<std::int32_t> plain_ids(const Tokenizer& tokenizer, const std::string& text) {
  EncodeOptions options;
  options.add_special_tokens = false;
  return tokenizer.encode(text, options).ids;
}

void expect_close(const std::vector<float>& found, const std::vector<float>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-6);
}

}  // namespace

TEST(EmbedInput, IdsGiveTheVectorsOfTheirText) {
  const Embedder embedder = Embedder::load(kFolder);
  std::string book;
  for (int i = 0; i < 40; ++i) book += kTexts[0] + " ";
  for (const Pooling pooling : {Pooling::mean, Pooling::max, Pooling::cls, Pooling::tokens}) {
    EmbedOptions options;
    options.pooling = pooling;
    options.too_long = TooLong::split;
    for (const std::string& text : {kTexts[0], kTexts[1], kTexts[2], book}) {
      for (const char* prompt : {"", "they were "}) {
        options.prompt = prompt;
        const auto ids = plain_ids(embedder.tokenizer(), text);
        const std::vector<EmbedInput> inputs = {{.ids = ids}, {.text = text}};
        const auto found = embedder.embed(inputs, options);
        expect_close(found[0].values, found[1].values);
        expect_close(found[1].values, embedder.embed({&text, 1}, options)[0].values);
        EXPECT_EQ(found[0].tokens, found[1].tokens);
        EXPECT_EQ(found[0].rows, found[1].rows);
      }
    }
  }
}

TEST(EmbedInput, AnUnknownIdIsAnErrorOfItsText) {
  const Embedder embedder = Embedder::load(kFolder);
  const std::vector<std::int32_t> ids = {1 << 20};
  const std::vector<EmbedInput> inputs = {{.text = kTexts[0]}, {.ids = ids}};
  try {
    embedder.embed(inputs);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.document(), 1);
  }
}

TEST(Passages, AreThoseThatGetVectors) {
  const Embedder embedder = Embedder::load(kFolder);
  std::string text = "\U0001f600 ";
  for (int i = 0; i < 20; ++i) text += "She had one of them. They were there.\n";
  Embedder::PassageOptions options;
  options.passage_tokens = 12;
  options.context = PassageContext::none;
  const auto spans = passages_of(embedder.tokenizer(), text, 12);
  EXPECT_EQ(spans, embedder.embed_passages(text, options).spans);
  EXPECT_GT(spans.size(), 5u);
  EXPECT_THROW(passages_of(embedder.tokenizer(), text, 0), Error);
}

TEST(Reports, CountPassesAndTokens) {
  std::vector<PassReport> passes;
  const Embedder embedder = Embedder::load(
      kFolder, {.pass = [&passes](const PassReport& pass) { passes.push_back(pass); }});
  const double before = Tokenizer::seconds_spent();
  std::int64_t tokens = 0;
  for (const Embedding& one : embedder.embed(kTexts)) tokens += one.tokens;
  ASSERT_EQ(passes.size(), 1u);
  EXPECT_EQ(passes[0].documents, std::ssize(kTexts));
  EXPECT_EQ(passes[0].tokens, tokens);
  EXPECT_GT(passes[0].seconds, 0);
  EXPECT_GT(Tokenizer::seconds_spent(), before);
  EXPECT_EQ(embedder.model().turns_lent(), 0);
  EXPECT_FALSE(instruction_set().empty());
}

TEST(Cosines, AreAtMostOne) {
  std::vector<float> a(384);
  for (int seed = 1; seed < 200; ++seed) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = 1.0f / static_cast<float>(1 + (i * static_cast<std::size_t>(seed)) % 97);
    }
    EXPECT_LE(similarity(Similarity::cosine, a, a), 1);
  }
}

}  // namespace longformer::embed_input_test
