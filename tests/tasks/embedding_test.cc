// Vectors of texts and passages: folders that sentence-transformers saved against the vectors that
// it computed (tests/fixtures/make_sentence_models.py), prompts, context, and the search index.
//
// Reruns: tsan
#include "longformer/embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/run/model_implementation.h"
#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "longformer/checkpoint.h"
#include "longformer/search.h"
#include "temporary_folder.h"

namespace longformer::embedding_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string fixture(const std::string& name) { return (fixtures_folder() / name).string(); }

/// Largest difference; NaN for different sizes or a NaN.
float difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size() || a.empty()) return std::nanf("");
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float here = std::abs(a[i] - b[i]);
    largest = here <= largest ? largest : here;
  }
  return largest;
}

/// The options with which a call of the package is ours.
EmbedOptions options_of(const Json& call) {
  EmbedOptions options;
  options.too_long = TooLong::truncate;
  if (call.contains("prompt")) options.prompt = call["prompt"].get<std::string>();
  if (call.contains("prompt_name")) options.prompt_name = call["prompt_name"].get<std::string>();
  if (call["method"] == "encode_query") options.prompt_name = "query";
  if (call["method"] == "encode_document") options.prompt_name = "document";
  return options;
}

std::vector<float> embed_all(const Embedder& embedder, const std::vector<std::string>& texts,
                             const EmbedOptions& options) {
  std::vector<float> values;
  for (const Embedding& embedding : embedder.embed(texts, options)) {
    values.insert(values.end(), embedding.values.begin(), embedding.values.end());
  }
  return values;
}

class SentenceFolder : public testing::Test {
 protected:
  /// A copy of a fixture that may be changed.
  std::string copy_of(const std::string& name) {
    fs::remove_all(folder_.path() / name);
    fs::copy(fixture(name), folder_.path() / name, fs::copy_options::recursive);
    return (folder_.path() / name).string();
  }
  static void write(const std::string& path, const Json& json) {
    formats::write_file(path, json.dump());
  }

  TemporaryFolder folder_;
};

class SavedFolder : public SentenceFolder, public testing::WithParamInterface<const char*> {};

TEST_P(SavedFolder, GivesTheVectorsOfThePackage) {
  const std::string folder = copy_of(GetParam());
  const Json known = formats::read_json(folder + "/calls.json");
  const auto expected = formats::SafetensorsFile::open(folder + "/expected.safetensors");
  const auto texts = known["texts"].get<std::vector<std::string>>();
  Json pooling = formats::read_json(folder + "/1_Pooling/config.json");
  for (const std::string mode : known["poolings"]) {
    pooling["pooling_mode"] = mode;
    write(folder + "/1_Pooling/config.json", pooling);
    const Embedder embedder = Embedder::load(folder);
    for (std::size_t i = 0; i < known["calls"].size(); ++i) {
      const Json& call = known["calls"][i];
      const Tensor& vectors = expected.tensors().at(mode + "." + std::to_string(i));
      EXPECT_EQ(embedder.embedding_size(), vectors.columns());
      const auto found = embed_all(embedder, texts, options_of(call));
      EXPECT_TRUE(difference(found, vectors.to_floats()) <= 1e-5f) << mode << " " << call.dump();
    }
  }
}

TEST_P(SavedFolder, AnExplicitPoolingWinsOverThatOfTheFolder) {
  const std::string folder = copy_of(GetParam());
  const Json known = formats::read_json(folder + "/calls.json");
  const auto expected = formats::SafetensorsFile::open(folder + "/expected.safetensors");
  const auto texts = known["texts"].get<std::vector<std::string>>();
  Json file = formats::read_json(folder + "/1_Pooling/config.json");
  file["pooling_mode"] = Json::array({"mean", "weightedmean"});
  write(folder + "/1_Pooling/config.json", file);
  const Embedder embedder = Embedder::load(folder);
  EmbedOptions options = options_of(known["calls"][0]);
  expect_error(error_of([&] { embedder.embed(texts, options); }),
               {"1_Pooling/config.json", "pooling_mode", "mean+weightedmean"});
  for (const std::string mode : known["poolings"]) {
    options.pooling = pooling(mode);
    const Tensor& vectors = expected.tensors().at(mode + ".0");
    EXPECT_TRUE(difference(embed_all(embedder, texts, options), vectors.to_floats()) <= 1e-5f);
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, SavedFolder,
                         testing::Values("sentence_dense", "sentence_instructed"));

TEST_F(SentenceFolder, ReadsThePoolingOfOlderVersions) {
  const std::string folder = copy_of("sentence_dense");
  const std::string path = folder + "/1_Pooling/config.json";
  const auto pooling_with = [&](const Json& json) {
    write(path, json);
    return inspect(folder).pooling;
  };
  EXPECT_EQ(pooling_with({{"pooling_mode_max_tokens", true}}), "max");
  EXPECT_EQ(pooling_with({{"pooling_mode_cls_token", true}, {"pooling_mode_lasttoken", true}}),
            "cls+lasttoken");
  EXPECT_EQ(pooling_with({{"pooling_mode_mean_tokens", false}}), "mean");
}

TEST_F(SentenceFolder, NamesWhatItCannotRun) {
  const std::string folder = copy_of("sentence_dense");
  const std::string list = folder + "/modules.json";
  const std::string dense = folder + "/3_Dense/config.json";
  const Json modules = formats::read_json(list);
  const Json config = formats::read_json(dense);
  const auto message = [&] { return error_of([&] { Embedder::load(folder); }); };
  const auto changed = [](Json json, const char* key, const Json& value) {
    json[key] = value;
    return json;
  };
  Json strange = modules;
  strange[3]["type"] = "sentence_transformers.models.LSTM";
  write(list, strange);
  expect_error(message(), {"modules.json", "sentence_transformers.models.LSTM"});
  strange[3]["type"] = "somebody.Dense";
  write(list, strange);
  expect_error(message(), {"modules.json", "somebody.Dense"});
  strange = modules;
  strange[3]["path"] = "../3_Dense";
  write(list, strange);
  expect_error(message(), {"modules.json", "path", "../3_Dense"});
  strange = modules;
  strange[0]["path"] = "0_Transformer";
  write(list, strange);
  expect_error(message(), {"modules.json", "encoder in 0_Transformer", "config.json"});
  write(list, modules);

  write(dense, changed(config, "activation_function", "torch.nn.modules.activation.Hardswish"));
  expect_error(message(), {"activation_function", "Hardswish"});
  write(dense, changed(config, "activation_function", "mine.Tanh"));
  expect_error(message(), {"activation_function", "mine.Tanh"});
  write(dense, changed(config, "use_residual", true));
  expect_error(message(), {"use_residual"});
  write(dense, changed(config, "module_input_name", "token_embeddings"));
  expect_error(message(), {"module_input_name", "token_embeddings"});
  write(dense, changed(config, "in_features", 17));
  expect_error(message(), {"3_Dense", "in_features", "expected 16, found 17"});
  write(dense, changed(config, "out_features", 11));
  expect_error(message(), {"linear.weight", "[12, 16]"});
  write(dense, config);

  const std::string prompts = folder + "/config_sentence_transformers.json";
  const Json saved = formats::read_json(prompts);
  write(prompts, changed(saved, "default_prompt_name", "none of them"));
  expect_error(message(), {"default_prompt_name", "none of them"});
  write(prompts, changed(saved, "passage_context", "paragraph"));
  expect_error(message(), {"passage_context", "paragraph"});
  write(prompts, saved);
  const Embedder embedder = Embedder::load(folder);
  EmbedOptions options;
  options.prompt_name = "poem";
  expect_error(error_of([&] { embedder.prompt(options); }),
               {"clustering, document, passage, query", "poem"});
}

TEST_F(SentenceFolder, InfoTellsModulesPromptsAndLimits) {
  const FolderInfo info = inspect(fixture("sentence_dense"));
  EXPECT_EQ(info.unsupported, std::vector<std::string>());
  EXPECT_EQ(info.pooling, "mean");
  EXPECT_EQ(info.dense_sizes, (std::vector<std::int64_t>{12, 10, 6}));
  EXPECT_EQ(info.embedding_size, 6);
  EXPECT_EQ(info.max_length, 20);
  EXPECT_TRUE(info.normalize);
  EXPECT_EQ(info.default_prompt_name, "clustering");
  ASSERT_EQ(info.prompts.size(), 3u);
  EXPECT_EQ(info.prompts[2], (std::pair<std::string, std::string>("query", "which is ")));
}

TEST_F(SentenceFolder, ALongTextIsAnErrorUnlessToldOtherwise) {
  const Embedder embedder = Embedder::load(fixture("sentence_dense"));
  const std::vector<std::string> texts = {
      "the of and to in a is was he for it with as his on be at by"};
  EmbedOptions options;
  options.prompt = "";
  EXPECT_EQ(error_of([&] { embedder.embed(texts, options); }), "");
  options.max_length = 19;
  expect_error(error_of([&] { embedder.embed(texts, options); }), {"at most 19", "found 20"});
  options.max_length.reset();
  options.prompt = "had ";
  expect_error(error_of([&] { embedder.embed(texts, options); }), {"at most 20", "found 21"});
  options.max_length = 24;
  EXPECT_EQ(error_of([&] { embedder.embed(texts, options); }), "");
  options.max_length = 25;
  expect_error(error_of([&] { embedder.embed(texts, options); }), {"at most 24", "found 25"});
}

/// More tokens than any model of the fixtures takes.
std::string long_text() {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "he was ";
  return text;
}

TEST_F(SentenceFolder, ABadTextCostsTheOthersNothing) {
  const Embedder embedder = Embedder::load(fixture("sentence_dense"));
  const std::string bad = long_text();
  const std::vector<std::string> texts = {"he was in the house", bad, "she was with him", bad};
  const auto passes = [&] { return embedder.model().implementation().runner.passes(); };
  std::int64_t tokens = 0;
  const std::vector<EmbedOutcome> found = embedder.embed_each(
      texts, {}, [&](const Progress& progress) { tokens = progress.tokens_done; });
  EXPECT_EQ(passes(), 1);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_NE(found[1].error.find("expected at most"), std::string::npos) << found[1].error;
  EXPECT_EQ(found[1].error, found[3].error);
  EXPECT_FALSE(found[1].remedies.empty());
  EXPECT_TRUE(found[1].embedding.values.empty());
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
    EXPECT_EQ(found[i].error, "");
    EXPECT_EQ(found[i].embedding.values, embedder.embed({&texts[i], 1})[0].values);
  }
  EXPECT_EQ(tokens, found[0].embedding.tokens + found[2].embedding.tokens);
}

TEST_F(SentenceFolder, AnErrorKnowsItsText) {
  const Embedder embedder = Embedder::load(fixture("sentence_dense"));
  const std::vector<std::string> texts = {"he was", long_text()};
  try {
    static_cast<void>(embedder.embed(texts));
    ADD_FAILURE() << "expected an error, found none";
  } catch (const Error& error) {
    EXPECT_EQ(error.document(), 1);
    EXPECT_EQ(error.option(), "");
    EXPECT_TRUE(std::string(error.what()).starts_with("document 1: " + error.reason()));
  }
}

TEST_F(SentenceFolder, TokensOfAPromptHaveNoCharactersOfTheText) {
  const Embedder embedder = Embedder::load(fixture("sentence_dense"));
  EmbedOptions options;
  options.pooling = Pooling::tokens;
  options.prompt = "\u00e9 he. ";
  const std::vector<std::string> texts = {"it was"};
  const Embedding tokens = embedder.embed(texts, options).at(0);
  EXPECT_EQ(tokens.rows, 7);
  EXPECT_EQ(tokens.values.size(), 7u * 16u);
  EXPECT_EQ(tokens.spans,
            (std::vector<CharacterSpan>{{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 2}, {3, 6}, {0, 0}}));
}

const char* const kNovel =
    "it was in the hand. she had one of them. there they were all.\n\n"
    "he is at the have. you and his were by an. for it as on be. we are her. from which they.";

TEST_F(SentenceFolder, WithoutContextAPassageIsATextOfItsOwn) {
  for (const char* name : {"sentence_dense", "sentence_instructed"}) {
    const Embedder embedder = Embedder::load(fixture(name));
    EmbedOptions options;
    options.prompt_name = "passage";
    Embedder::PassageOptions passages;
    passages.passage_tokens = 6;
    EXPECT_EQ(embedder.passage_context(), PassageContext::none);
    for (const bool overlapping : {false, true}) {
      passages.overlapping_passages = overlapping;
      const Embedding found = embedder.embed_passages(kNovel, passages, options);
      ASSERT_GE(found.rows, 6);
      std::vector<std::string> texts;
      for (const CharacterSpan& span : found.spans) {
        texts.push_back(std::string(kNovel).substr(
            static_cast<std::size_t>(span.begin), static_cast<std::size_t>(span.end - span.begin)));
      }
      EXPECT_TRUE(difference(found.values, embed_all(embedder, texts, options)) <= 1e-6f);
    }
  }
}

TEST_F(SentenceFolder, InTheContextOfTheDocumentAPassageIsPooledFromItsTokens) {
  const Embedder embedder = Embedder::load(fixture("sentence_instructed"));
  // One segment: the document is shorter than the model takes.
  const std::string text = "it was in the hand. she";
  EmbedOptions options;
  options.prompt = "he ";
  Embedder::PassageOptions passages;
  passages.passage_tokens = 4;
  passages.context = PassageContext::document;
  const Embedding found = embedder.embed_passages(text, passages, options);
  options.pooling = Pooling::tokens;
  options.normalize = false;
  const Embedding tokens = embedder.embed({&text, 1}, options).at(0);
  ASSERT_GE(found.rows, 2);
  for (std::size_t p = 0; p < found.spans.size(); ++p) {
    std::vector<float> mean(16);
    float count = 0;
    for (std::size_t t = 0; t < tokens.spans.size(); ++t) {
      const CharacterSpan span = tokens.spans[t];
      if (span.end <= found.spans[p].begin || span.end > found.spans[p].end) continue;
      ++count;
      for (std::size_t c = 0; c < 16; ++c) mean[c] += tokens.values[t * 16 + c];
    }
    for (float& x : mean) x /= count;
    EXPECT_TRUE(difference(mean, std::span(found.values).subspan(p * 16, 16)) <= 1e-5f);
  }
  options.pooling = Pooling::cls;
  expect_error(error_of([&] { embedder.embed_passages(text, passages, options); }),
               {"mean or max"});
}

TEST_F(SentenceFolder, SaysItsOwnContext) {
  const std::string folder = copy_of("sentence_instructed");
  const std::string path = folder + "/config_sentence_transformers.json";
  Json config = formats::read_json(path);
  config["passage_context"] = "document";
  write(path, config);
  const Embedder embedder = Embedder::load(folder);
  EXPECT_EQ(embedder.passage_context(), PassageContext::document);
  EXPECT_EQ(inspect(folder).passage_context, "document");
  Embedder::PassageOptions passages;
  passages.passage_tokens = 6;
  const auto by_default = embedder.embed_passages(kNovel, passages).values;
  passages.context = PassageContext::document;
  EXPECT_EQ(by_default, embedder.embed_passages(kNovel, passages).values);
  passages.context = PassageContext::none;
  EXPECT_NE(by_default, embedder.embed_passages(kNovel, passages).values);
}

TEST_F(SentenceFolder, AnIndexRemembersContextAndPrompt) {
  const Embedder embedder = Embedder::load(fixture("sentence_dense"));
  SearchOptions options;
  options.passages.passage_tokens = 6;
  EXPECT_EQ(SearchIndex(embedder, options).options().passage_prompt, "");
  options.passages.context = PassageContext::document;
  options.passage_prompt = "for you: ";
  const std::string file = (folder_.path() / "index").string();
  SearchIndex::edit(file, embedder, options).add(embedder, "novel", kNovel);
  SearchIndex loaded = SearchIndex::edit(file, embedder);
  EXPECT_EQ(loaded.options().passages.context, PassageContext::document);
  EXPECT_EQ(loaded.options().passage_prompt, "for you: ");
  // Further documents are read as the first ones were.
  loaded.add(embedder, "again", kNovel);
  const auto hits =
      loaded.query(embedder, {.question = "they were all", .top_k = 40, .mode = SearchMode::dense});
  ASSERT_GE(hits.size(), 8u);
  for (std::size_t i = 0; i + 1 < hits.size(); i += 2) EXPECT_EQ(hits[i].score, hits[i + 1].score);
}

TEST_F(SentenceFolder, AQuestionIsReadBehindThePromptQuery) {
  const Embedder embedder = Embedder::load(fixture("sentence_dense"));
  SearchOptions options;
  options.passages.passage_tokens = 12;
  SearchIndex index(embedder, options);
  const std::string text = "she had one of them.";
  index.add(embedder, "text", text);
  const auto behind = [&](const char* prompt, const std::string& read) {
    EmbedOptions with_prompt;
    with_prompt.prompt = prompt;
    return embed_all(embedder, {read}, with_prompt);
  };
  const auto cosine = [&](const char* prompt) {
    const auto passage = behind("", text), asked = behind(prompt, "they were all");
    return std::inner_product(passage.begin(), passage.end(), asked.begin(), 0.0f);
  };
  SearchQuery query = {.question = "they were all", .top_k = 1, .mode = SearchMode::dense};
  EXPECT_NEAR(index.query(embedder, query).at(0).score, cosine("which is "), 1e-5);
  query.prompt = "he ";
  EXPECT_NEAR(index.query(embedder, query).at(0).score, cosine("he "), 1e-5);
  EXPECT_GT(std::abs(cosine("which is ") - cosine("")), 1e-3);
}

TEST_F(SentenceFolder, AnIndexBelongsToTheModulesToo) {
  const std::string folder = copy_of("sentence_dense");
  const std::string file = (folder_.path() / "index").string();
  EXPECT_EQ(error_of([&] { SearchIndex::edit(file, Embedder::load(folder)); }), "");
  EXPECT_EQ(error_of([&] { SearchIndex::open(file, Embedder::load(folder)); }), "");
  Json modules = formats::read_json(folder + "/modules.json");
  modules.erase(modules.size() - 2);
  write(folder + "/modules.json", modules);
  expect_error(error_of([&] { SearchIndex::open(file, Embedder::load(folder)); }),
               {"index", "other weights"});
}

}  // namespace
}  // namespace longformer::embedding_test
