// Static, sparse and multi-vectors: folders of sentence-transformers, model2vec, PyLate and ColBERT
// with drawn weights against what their packages gave (tests/fixtures/make_vector_models.py), and
// the index.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "longformer/checkpoint.h"
#include "longformer/search.h"
#include "temporary_folder.h"

namespace longformer::vectors_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The packages compute in fp32 too.
constexpr float kTolerance = 1e-5f;

std::string fixture(const std::string& name) { return (fixtures_folder() / name).string(); }

Json expected(const std::string& name) {
  return formats::read_json(fixture(name) + "/expected.json");
}

std::vector<std::string> texts_of(const Json& known) {
  return known["texts"].get<std::vector<std::string>>();
}

std::vector<EmbedInput> inputs_of(const std::vector<std::string>& texts) {
  std::vector<EmbedInput> inputs;
  for (const std::string& text : texts) inputs.push_back({.text = text});
  return inputs;
}

/// Whether all numbers are near; false for a NaN and other counts.
bool near(std::span<const float> found, const std::vector<float>& wanted) {
  if (found.size() != wanted.size()) return false;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!(std::abs(found[i] - wanted[i]) <= kTolerance)) return false;
  }
  return true;
}

/// Rows of JSON behind each other.
std::vector<float> flat(const Json& rows) {
  std::vector<float> all;
  for (const Json& row : rows) {
    for (const Json& x : row) all.push_back(x.get<float>());
  }
  return all;
}

bool near(const SparseEmbedding& found, const Json& wanted) {
  std::map<std::int32_t, float> weights;
  for (const auto& [token, weight] : wanted.items())
    weights[std::stoi(token)] = weight.get<float>();
  std::vector<float> mine, theirs;
  std::int32_t last = -1;
  for (const TokenWeight& one : found.weights) {
    if (one.token <= last) return false;
    last = one.token;
    // A weight at the edge of 0 may be there or not.
    if (!weights.contains(one.token) && one.weight <= kTolerance) continue;
    mine.push_back(one.weight);
    theirs.push_back(weights.contains(one.token) ? weights[one.token] : std::nanf(""));
    weights.erase(one.token);
  }
  for (const auto& [token, weight] : weights) {
    if (!(weight <= kTolerance)) return false;
  }
  return near(mine, theirs);
}

KindOptions options_for(const Json& call, VectorKinds kinds) {
  KindOptions options = {.kinds = kinds};
  options.role = call["role"] == "query" ? TextRole::query : TextRole::document;
  if (call.contains("top_k")) options.top_k = call["top_k"].get<std::int64_t>();
  options.text.too_long = TooLong::truncate;
  return options;
}

class StaticFolder : public testing::TestWithParam<const char*> {};

TEST_P(StaticFolder, GivesTheVectorsOfThePackage) {
  const Json known = expected(GetParam());
  const Embedder embedder = Embedder::load(fixture(GetParam()));
  EXPECT_EQ(embedder.kinds(), (VectorKinds{.dense = true}));
  for (const Json& call : known["calls"]) {
    EmbedOptions options;
    if (call["role"] == "query") options.prompt_name = "query";
    const std::vector<Embedding> found = embedder.embed(inputs_of(texts_of(known)), options);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(near(found[i].values, call["vectors"][i].get<std::vector<float>>())) << i;
    }
  }
}

TEST_P(StaticFolder, ATextHasAnyLength) {
  const Embedder embedder = Embedder::load(fixture(GetParam()));
  std::string text;
  for (int i = 0; i < 70000; ++i) text += "it was ";
  const std::vector<EmbedInput> inputs = {{.text = text}, {.text = "it was"}};
  const std::vector<Embedding> found = embedder.embed(inputs);
  EXPECT_EQ(found[0].tokens, 140000);
  // A sum of so many numbers in fp32.
  for (std::size_t i = 0; i < found[0].values.size(); ++i) {
    EXPECT_TRUE(std::abs(found[0].values[i] - found[1].values[i]) <= 2e-3f);
  }
  EmbedOptions short_texts;
  short_texts.max_length = 5;
  expect_error(error_of([&] { embedder.embed(inputs, short_texts); }), {"at most 5 tokens"});
}

TEST_P(StaticFolder, IsSearchedAndDescribed) {
  const std::string folder = fixture(GetParam());
  const FolderInfo info = inspect(folder);
  EXPECT_EQ(info.layers, 0);
  EXPECT_EQ(info.embedding_size, 8);
  EXPECT_TRUE(info.unsupported.empty()) << info.unsupported[0];
  const Embedder embedder = Embedder::load(folder);
  SearchIndex index(embedder);
  index.add(embedder, "a", "she had one");
  index.add(embedder, "b", "of the hand");
  const auto hits = index.query(embedder, {.question = "of the hand", .mode = SearchMode::dense});
  ASSERT_EQ(hits.size(), 2u);
  EXPECT_EQ(hits[0].file, "b");
  EXPECT_GT(hits[0].score, hits[1].score);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, StaticFolder,
                         testing::Values("vectors_static", "vectors_model2vec",
                                         "vectors_model2vec_plain"));

class SparseFolder : public testing::TestWithParam<const char*> {};

TEST_P(SparseFolder, GivesTheWeightsOfThePackage) {
  const Json known = expected(GetParam());
  const Embedder embedder = Embedder::load(fixture(GetParam()));
  EXPECT_EQ(embedder.kinds(), (VectorKinds{.sparse = true}));
  const std::vector<std::string> texts = texts_of(known);
  for (const Json& call : known["calls"]) {
    const auto found = embedder.vectors(inputs_of(texts), options_for(call, {.sparse = true}));
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(near(found[i].sparse, call["weights"][i])) << call["role"] << " " << i;
    }
  }
  expect_error(error_of([&] { embedder.embed(std::span(texts)); }), {"sparse"});
}

INSTANTIATE_TEST_SUITE_P(Fixtures, SparseFolder,
                         testing::Values("vectors_splade", "vectors_splade_sum", "vectors_router"));

class MultiFolder : public testing::TestWithParam<const char*> {};

TEST_P(MultiFolder, GivesTheVectorsAndScoresOfThePackage) {
  const Json known = expected(GetParam());
  const Embedder embedder = Embedder::load(fixture(GetParam()));
  EXPECT_TRUE(embedder.kinds().multi);
  const std::vector<std::string> texts = texts_of(known);
  std::vector<TextVectors> queries, documents;
  for (const Json& call : known["calls"]) {
    if (call["role"] == "scores" || call.contains("weights") || call["role"] == "none") continue;
    auto& found = call["role"] == "query" ? queries : documents;
    found = embedder.vectors(inputs_of(texts), options_for(call, {.multi = true}));
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Json& wanted = call["vectors"][i];
      EXPECT_EQ(found[i].multi.rows, std::ssize(wanted)) << call["role"] << " " << i;
      EXPECT_EQ(std::ssize(found[i].multi.spans), found[i].multi.rows);
      EXPECT_TRUE(near(found[i].multi.values, flat(wanted))) << call["role"] << " " << i;
    }
  }
  if (queries.empty()) queries = documents;
  const Json& scores = known["calls"].back()["vectors"];
  for (std::size_t q = 0; q < queries.size(); ++q) {
    for (std::size_t d = 0; d < documents.size(); ++d) {
      float score = max_sim(queries[q].multi, documents[d].multi);
      if (embedder.scores_mean()) score /= static_cast<float>(queries[q].multi.rows);
      EXPECT_TRUE(std::abs(score - scores[q][d].get<float>()) <= 10 * kTolerance) << q << " " << d;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, MultiFolder,
                         testing::Values("vectors_multi", "vectors_multi_plain", "vectors_pylate",
                                         "vectors_colbert", "vectors_bge"));

TEST(AllHeads, AreOfOnePass) {
  const Json known = expected("vectors_bge");
  const Embedder embedder = Embedder::load(fixture("vectors_bge"));
  EXPECT_EQ(embedder.kinds(), (VectorKinds{.dense = true, .sparse = true, .multi = true}));
  const std::vector<std::string> texts = texts_of(known);
  const KindOptions options = {.kinds = embedder.kinds()};
  const auto found = embedder.vectors(inputs_of(texts), options);
  const std::vector<Embedding> alone = embedder.embed(std::span(texts));
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(near(found[i].dense.values, known["calls"][0]["vectors"][i]));
    EXPECT_TRUE(near(found[i].dense.values, alone[i].values));
    EXPECT_TRUE(near(found[i].sparse, known["calls"][1]["weights"][i])) << i;
    EXPECT_TRUE(near(found[i].multi.values, flat(known["calls"][2]["vectors"][i]))) << i;
  }
}

TEST(KindsOfFolders, OthersAreRefusedByName) {
  const Embedder dense = Embedder::load(fixture("sentence_dense"));
  const EmbedInput input = {.text = "it was"};
  KindOptions options = {.kinds = {.multi = true}};
  expect_error(error_of([&] { dense.vectors({&input, 1}, options); }), {"ColBERT"});
  options.kinds = {.sparse = true};
  expect_error(error_of([&] { dense.vectors({&input, 1}, options); }), {"masked-LM"});
  options.kinds = {};
  expect_error(error_of([&] { dense.vectors({&input, 1}, options); }), {"kinds", "none"});
  expect_error(error_of([] { vector_kinds("dense,odd"); }), {"multi", "odd"});
}

class BrokenFolder : public testing::Test {
 protected:
  std::string copy_of(const std::string& name) {
    fs::copy(fixture(name), folder_.path() / name, fs::copy_options::recursive);
    return (folder_.path() / name).string();
  }
  static void change(const std::string& file, const std::string& key, const Json& value) {
    Json json = formats::read_json(file);
    json[key] = value;
    formats::write_file(file, json.dump());
  }

  TemporaryFolder folder_;
};

/// Without its modules the folder is any masked LM.
TEST_F(BrokenFolder, APlainMaskedLmMakesSparseVectorsWhereAskedTo) {
  const std::string folder = copy_of("vectors_splade");
  fs::remove(fs::path(folder) / "modules.json");
  const Embedder embedder = Embedder::load(folder);
  EXPECT_EQ(embedder.kinds(), (VectorKinds{.dense = true}));
  const std::string text = "it was in the hand";
  const EmbedInput input = {.text = text};
  const Model& model = embedder.model();
  const Encoding tokens = embedder.tokenizer().encode(text);
  const std::vector<float> logits = model.masked_lm_logits({.ids = tokens.ids,
                                                            .attention_mask = {},
                                                            .token_type_ids = {},
                                                            .position_ids = {},
                                                            .global_attention_mask = {}});
  const auto entries = static_cast<std::size_t>(model.info().vocabulary_size);
  std::vector<float> wanted(entries, 0), mine(entries, 0);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    wanted[i % entries] = std::max(wanted[i % entries], std::log1p(std::max(logits[i], 0.0f)));
  }
  const KindOptions options = {.kinds = {.sparse = true}};
  const std::vector<TextVectors> found = embedder.vectors({&input, 1}, options);
  for (const TokenWeight& one : found[0].sparse.weights) {
    mine[static_cast<std::size_t>(one.token)] = one.weight;
  }
  EXPECT_TRUE(near(mine, wanted));
}

TEST_F(BrokenFolder, NamesFileAndKey) {
  const std::string splade = copy_of("vectors_splade");
  change(splade + "/1_SpladePooling/config.json", "pooling_strategy", "min");
  expect_error(error_of([&] { Embedder::load(splade); }),
               {"pooling_strategy", "max or sum", "min"});
  const std::string colbert = copy_of("vectors_colbert");
  change(colbert + "/artifact.metadata", "query_maxlen", 1000);
  expect_error(error_of([&] { Embedder::load(colbert); }), {"length", "1000"});
  const std::string table = copy_of("vectors_static");
  fs::remove(fs::path(table) / "model.safetensors");
  expect_error(error_of([&] { Embedder::load(table); }), {"model.safetensors"});
}

/// Options for the short texts that the folders read.
SearchOptions with_vectors(std::optional<VectorKinds> kinds = {}) {
  SearchOptions options;
  options.passages.passage_tokens = 32;
  options.vectors = kinds;
  return options;
}

/// An index of two documents.
SearchIndex index_of(const Embedder& embedder) {
  SearchIndex index(embedder, with_vectors());
  index.add(embedder, "a", "She had ONE, and they were all there.");
  index.add(embedder, "b", "it was in the hand");
  return index;
}

TEST(TokenIndex, RanksByTheProductsOfSparseVectors) {
  const Embedder embedder = Embedder::load(fixture("vectors_splade"));
  const SearchIndex index = index_of(embedder);
  EXPECT_EQ(index.kinds(), (VectorKinds{.sparse = true}));
  const SearchQuery query = {.question = "in the hand", .mode = SearchMode::sparse};
  const auto hits = index.query(embedder, query);
  ASSERT_EQ(hits.size(), 2u);
  const std::vector<std::string> texts = {hits[0].text};
  const std::vector<std::string> questions = {query.question};
  KindOptions options = {.kinds = {.sparse = true}};
  const auto document = embedder.vectors(inputs_of(texts), options);
  options.role = TextRole::query;
  std::map<std::int32_t, float> weights;
  const auto question = embedder.vectors(inputs_of(questions), options);
  for (const TokenWeight& one : question[0].sparse.weights) {
    weights[one.token] = one.weight;
  }
  double product = 0;
  for (const TokenWeight& one : document[0].sparse.weights) {
    product += double{weights[one.token]} * double{one.weight};
  }
  EXPECT_TRUE(std::abs(hits[0].score - product) <= 1e-4);
  EXPECT_TRUE(hits[0].sparse && !hits[0].similarity && hits[0].score >= hits[1].score);
  const auto both = index.query(embedder, {.question = "in the hand"});
  EXPECT_TRUE(both[0].words && both[0].sparse);
  expect_error(
      error_of([&] { index.query(embedder, {.question = "x", .mode = SearchMode::dense}); }),
      {"dense", "sparse"});
}

TEST(TokenIndex, RanksByMaxSim) {
  const Embedder embedder = Embedder::load(fixture("vectors_colbert"));
  const SearchIndex index = index_of(embedder);
  const auto hits =
      index.query(embedder, {.question = "it was in the hand", .mode = SearchMode::multi});
  ASSERT_EQ(hits.size(), 2u);
  for (const SearchHit& hit : hits) {
    const std::vector<std::string> questions = {"it was in the hand"}, texts = {hit.text};
    const KindOptions query = {.kinds = {.multi = true}, .role = TextRole::query};
    const KindOptions document = {.kinds = {.multi = true}};
    const float score = max_sim(embedder.vectors(inputs_of(questions), query)[0].multi,
                                embedder.vectors(inputs_of(texts), document)[0].multi);
    // The index has bytes: 14 vectors of length 1 are off by at most 0.01 each.
    EXPECT_TRUE(std::abs(hit.score - score) <= 0.14f) << hit.score << " " << score;
    EXPECT_EQ(hit.multi, hit.score);
  }
  const MultiVectorCost cost = index.multi_cost();
  EXPECT_GT(cost.vectors, 8);
  EXPECT_EQ(cost.bytes, cost.vectors * 16);
}

TEST(TokenIndex, KeepsAllKindsInAFile) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "all.index").string();
  const Embedder embedder = Embedder::load(fixture("vectors_bge"));
  const SearchOptions options = with_vectors(embedder.kinds());
  std::vector<SearchHit> before;
  const SearchQuery query = {.question = "in the hand"};
  {
    SearchIndex index = SearchIndex::edit(file, embedder, options);
    index.add(embedder, "a", "She had ONE, and they were all there.");
    index.add(embedder, "b", "it was in the hand");
    index.add(embedder, "c", "of the of");
    index.add(embedder, "a", "of the hand");
    EXPECT_EQ(index.remove("c"), 1);
    before = index.query(embedder, query);
  }
  const SearchIndex index = SearchIndex::open(file, embedder);
  EXPECT_EQ(index.kinds(), embedder.kinds());
  const auto after = index.query(embedder, query);
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(to_json(after[i]), to_json(before[i]));
    EXPECT_TRUE(after[i].similarity && after[i].sparse && after[i].multi && after[i].words);
  }
  for (const SearchMode mode : {SearchMode::sparse, SearchMode::multi, SearchMode::dense}) {
    const auto hits = index.query(embedder, {.question = "she had one", .mode = mode});
    for (const SearchHit& hit : hits) EXPECT_NE(hit.text, "She had ONE, and they were all there.");
  }
}

TEST(TokenIndex, HasDenseVectorsAloneUnlessAskedTo) {
  const Embedder embedder = Embedder::load(fixture("vectors_bge"));
  EXPECT_EQ(index_of(embedder).kinds(), (VectorKinds{.dense = true}));
  EXPECT_EQ(with_mode({}, SearchMode::sparse, embedder).vectors,
            (VectorKinds{.dense = true, .sparse = true}));
  SearchOptions options = with_vectors(VectorKinds{.sparse = true});
  options.passages.context = PassageContext::document;
  SearchIndex index(embedder, options);
  expect_error(error_of([&] { index.add(embedder, "a", "it was"); }), {"context", "document"});
}

}  // namespace
}  // namespace longformer::vectors_test
