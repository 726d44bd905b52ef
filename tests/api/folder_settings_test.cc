// Settings of a folder besides its weights: similarity, truncate_dim, where its encoder is, and
// heads that config.json does not name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "fixtures.h"
#include "longformer/checkpoint.h"
#include "longformer/error.h"
#include "longformer/search.h"
#include "longformer/tasks.h"
#include "temporary_folder.h"

namespace longformer::folder_settings_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const fs::path kFixtures = fixtures_folder();
const std::vector<std::string> kTexts = {
    "it was in the hand", "she had one of them", "there they were all",   "you and his", "by an",
    "hand hand",          "they were",           "one one one of the all"};

/// A copy of a fixture with other keys in one of its files.
class ChangedFolder : public TemporaryFolder {
 public:
  explicit ChangedFolder(const std::string& fixture) {
    fs::copy(kFixtures / fixture, path(), fs::copy_options::recursive);
  }
  void set(const std::string& file, const std::string& key, const Json& value) const {
    Json json = Json::parse(std::ifstream(path() / file));
    json[key] = value;
    if (value.is_null()) json.erase(key);
    write(file, json);
  }
  void write(const std::string& file, const Json& json) const {
    std::ofstream(path() / file) << json.dump();
  }
  /// Leaves the first modules.
  void keep_modules(std::size_t count) const {
    Json modules = Json::parse(std::ifstream(path() / "modules.json"));
    modules.erase(modules.begin() + static_cast<std::ptrdiff_t>(count), modules.end());
    write("modules.json", modules);
  }
};

constexpr const char* kSettings = "config_sentence_transformers.json";

float expected_similarity(const std::string& kind, const std::vector<float>& a,
                          const std::vector<float>& b) {
  double dot = 0, aa = 0, bb = 0, squares = 0, distances = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    dot += x * y, aa += x * x, bb += y * y;
    squares += (x - y) * (x - y), distances += std::abs(x - y);
  }
  const double value = kind == "cosine"      ? dot / std::sqrt(aa * bb)
                       : kind == "dot"       ? dot
                       : kind == "euclidean" ? -std::sqrt(squares)
                                             : -distances;
  return static_cast<float>(value);
}

TEST(FolderSettings, SearchRanksByTheSimilarityOfTheFolder) {
  std::set<std::string> orders;
  for (const std::string kind : {"cosine", "dot", "euclidean", "manhattan"}) {
    const ChangedFolder folder("sentence_dense");
    folder.keep_modules(4);
    folder.set(kSettings, "similarity_fn_name", kind);
    const auto embedder = Embedder::load(folder.name());
    EXPECT_EQ(name_of(embedder.similarity()), kind);
    EXPECT_EQ(inspect(folder.name()).similarity, kind);
    SearchOptions options;
    options.passages.passage_tokens = 16;
    SearchIndex index(embedder, options);
    for (std::size_t i = 0; i < kTexts.size(); ++i) {
      index.add(embedder, std::to_string(i), kTexts[i]);
    }
    EmbedOptions asking, held;
    asking.prompt_name = "query";
    held.prompt_name = "document";
    const std::string question = "they were all of them";
    const auto asked = embedder.embed({&question, 1}, asking)[0].values;
    const auto vectors = embedder.embed(kTexts, held);
    const auto hits =
        index.query(embedder, {.question = question, .top_k = 8, .mode = SearchMode::dense});
    ASSERT_EQ(hits.size(), kTexts.size());
    std::string order;
    for (const SearchHit& hit : hits) {
      const auto& vector = vectors[std::stoul(hit.file)].values;
      EXPECT_NEAR(hit.score, expected_similarity(kind, asked, vector), 1e-4) << kind;
      order += hit.file;
    }
    orders.insert(order);
    EXPECT_TRUE(std::is_sorted(hits.begin(), hits.end(),
                               [](const auto& a, const auto& b) { return a.score > b.score; }));
  }
  EXPECT_GE(orders.size(), 2u);
}

TEST(FolderSettings, VectorsAreCutBehindAllModules) {
  const std::string text = kTexts[0];
  const auto whole = Embedder::load((kFixtures / "sentence_dense").string()).embed({&text, 1});
  const ChangedFolder folder("sentence_dense");
  folder.set(kSettings, "truncate_dim", 4);
  const auto embedder = Embedder::load(folder.name());
  EXPECT_EQ(embedder.embedding_size(), 4);
  const std::vector<float> first(whole[0].values.begin(), whole[0].values.begin() + 4);
  EXPECT_EQ(embedder.embed({&text, 1})[0].values, first);
  EmbedOptions options;
  options.truncate_dim = 2;
  EXPECT_EQ(embedder.embed({&text, 1}, options)[0].values.size(), 2u);
  options.normalize = true;
  const auto scaled = embedder.embed({&text, 1}, options)[0].values;
  EXPECT_NEAR(std::hypot(scaled[0], scaled[1]), 1, 1e-6);
  options.truncate_dim = 50;
  EXPECT_EQ(embedder.embed({&text, 1}, options)[0].values.size(), 6u);
  EXPECT_EQ(inspect(folder.name()).embedding_size, 4);
  folder.set(kSettings, "truncate_dim", 0);
  EXPECT_THROW(Embedder::load(folder.name()), Error);
}

TEST(FolderSettings, TheEncoderMayBeInItsOwnFolder) {
  const ChangedFolder usual("sentence_dense");
  usual.keep_modules(2);
  const ChangedFolder old("sentence_dense");
  old.keep_modules(2);
  fs::create_directory(old.path() / "0_Transformer");
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json",
                           "tokenizer_config.json", "sentence_bert_config.json"}) {
    fs::rename(old.path() / file, old.path() / "0_Transformer" / file);
  }
  old.write("config.json", {{"__version__", "0.3.8"}});
  Json modules = Json::parse(std::ifstream(old.path() / "modules.json"));
  modules[0]["path"] = "0_Transformer";
  old.write("modules.json", modules);
  const auto expected = Embedder::load(usual.name()).embed(kTexts);
  const auto embedder = Embedder::load(old.name());
  const auto found = embedder.embed(kTexts);
  for (std::size_t i = 0; i < kTexts.size(); ++i) EXPECT_EQ(found[i].values, expected[i].values);
  EXPECT_EQ(embedder.max_length(), Embedder::load(usual.name()).max_length());
  EXPECT_TRUE(inspect(old.name()).unsupported.empty());
}

TEST(FolderSettings, AVerbTakesItsHeadWhereNoneIsNamed) {
  const std::string name = "tiny_distilbert_classifier";
  const auto expected = Classifier::load((kFixtures / name).string()).classify(kTexts, {});
  const ChangedFolder folder(name);
  for (const Json& named : {Json(nullptr), Json::array(), Json::array({"DistilBertModel"}),
                            Json::array({"DistilBertForMaskedLM"})}) {
    folder.set("config.json", "architectures", named);
    const auto found = Classifier::load(folder.name()).classify(kTexts, {});
    for (std::size_t i = 0; i < kTexts.size(); ++i) EXPECT_EQ(found[i].logits, expected[i].logits);
  }
  folder.set("config.json", "architectures", Json::array({"DistilBertForTokenClassification"}));
  EXPECT_THROW(Classifier::load(folder.name()), Error);
}

TEST(FolderSettings, UsualFoldersSaySoWithoutANote) {
  int read = 0;
  for (const auto& entry : fs::directory_iterator(kFixtures)) {
    const std::string folder = entry.path().string();
    if (!fs::exists(entry.path() / "tokenizer.json")) continue;
    const auto tokenizer = Tokenizer::load(folder);
    EXPECT_TRUE(tokenizer.notes().empty()) << folder << ": " << tokenizer.notes()[0];
    ++read;
    // Tables of tokens have none, or one without sizes.
    const Json config = Json::parse(std::ifstream(entry.path() / "config.json"), nullptr, false);
    if (!config.contains("vocab_size")) continue;
    EXPECT_LE(tokenizer.vocabulary_size(), config["vocab_size"].get<std::int64_t>()) << folder;
  }
  EXPECT_GT(read, 8);
}

TEST(FolderSettings, ATextWithATokenWithoutARowIsAnErrorThatNamesIt) {
  const ChangedFolder folder("tiny_distilbert_classifier");
  folder.set("tokenizer_config.json", "additional_special_tokens", {"<drug>", "<dose>"});
  std::vector<std::string> notes;
  LoadOptions options;
  options.note = [&notes](const std::string& note) { notes.push_back(note); };
  const auto classifier = Classifier::load(folder.name(), options);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("60 tokens"), std::string::npos) << notes[0];
  const auto expected =
      Classifier::load((kFixtures / "tiny_distilbert_classifier").string()).classify(kTexts, {});
  EXPECT_EQ(classifier.classify(kTexts, {})[0].logits, expected[0].logits);
  const std::vector<std::string> texts = {"she had <dose> one"};
  try {
    classifier.classify(texts, {});
    ADD_FAILURE() << "a token without a row is read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'<dose>'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace longformer::folder_settings_test
