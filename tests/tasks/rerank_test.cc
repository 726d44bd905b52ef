// Queries with texts: their forms in files, and negatives that are found by words.
#include <gtest/gtest.h>

#include <set>

#include "error_testing.h"
#include "longformer/options.h"
#include "tasks/rerank/hard_negatives.h"
#include "tasks/rerank/rerank_data.h"
#include "tasks/rerank/reranking.h"
#include "temporary_folder.h"

namespace longformer::tasks::rerank_test {
namespace {

class RerankTest : public testing::Test {
 protected:
  TemporaryFolder folder_;

  RerankData read(const std::string& contents, const std::string& file = "data.jsonl") {
    return read_rerank_data(folder_.add(file, contents), {});
  }
  std::string error(const std::string& contents) {
    return error_of([&] { read(contents); });
  }
};

std::vector<std::pair<std::string, float>> judged(const RerankExample& example) {
  std::vector<std::pair<std::string, float>> texts;
  for (const JudgedText& one : example.texts) texts.emplace_back(one.text, one.relevance);
  return texts;
}

using Judged = std::vector<std::pair<std::string, float>>;

TEST_F(RerankTest, PairsOfAQueryAreOneExample) {
  const RerankData data = read(R"({"query": "a", "text": "x", "label": 1})"
                               "\n"
                               R"({"query": "b", "passage": "y", "score": 0.25})"
                               "\n"
                               R"({"question": "a", "answer": "z", "relevance": false})"
                               "\n");
  ASSERT_EQ(data.examples.size(), 2u);
  EXPECT_EQ(judged(data.examples[0]), (Judged{{"x", 1.0f}, {"z", 0.0f}}));
  EXPECT_EQ(judged(data.examples[1]), (Judged{{"y", 0.25f}}));
  EXPECT_EQ(data.report.examples, 2);
  EXPECT_FALSE(data.has_lists);
  EXPECT_FALSE(data.is_binary);
}

TEST_F(RerankTest, ListsHavePositivesAndNegatives) {
  const RerankData data =
      read(R"({"anchor": "a", "positive": ["x", "y"], "negative_1": "u", "negative_2": "v"})"
           "\n"
           R"({"query": "b", "pos": "x", "neg": ["u"]})"
           "\n");
  EXPECT_EQ(judged(data.examples[0]), (Judged{{"x", 1}, {"y", 1}, {"u", 0}, {"v", 0}}));
  EXPECT_EQ(judged(data.examples[1]), (Judged{{"x", 1}, {"u", 0}}));
  EXPECT_TRUE(data.has_lists && data.is_binary);
}

TEST_F(RerankTest, TablesAndListsOfRelevances) {
  const RerankData table = read("query,text,label\na,x,1\na,y,0\n", "data.csv");
  EXPECT_EQ(judged(table.examples[0]), (Judged{{"x", 1}, {"y", 0}}));
  const RerankData lists = read(R"({"query": "a", "docs": ["x", "y"], "labels": [0.5, 1]})");
  EXPECT_EQ(judged(lists.examples[0]), (Judged{{"x", 0.5f}, {"y", 1}}));
  EXPECT_FALSE(lists.has_lists);
}

TEST_F(RerankTest, BrokenRecordsAreNamed) {
  EXPECT_NE(error(R"({"query": "a", "text": "x", "label": 1.5})").find("from 0 to 1, found 1.5"),
            std::string::npos);
  EXPECT_NE(error(R"({"text": "x", "label": 1})").find("expected a query"), std::string::npos);
  EXPECT_NE(error(R"({"query": "a", "texts": ["x"], "labels": [1, 0]})").find("as many"),
            std::string::npos);
  EXPECT_NE(error(R"({"query": "a", "text": "x", "label": "nan"})").find("relevance"),
            std::string::npos);
}

TEST_F(RerankTest, HardNegativesShareWordsWithTheQuery) {
  RerankData data = read(R"({"query": "the white rabbit", "positive": "a white rabbit ran"})"
                         "\n"
                         R"({"query": "what colour", "positive": "the rabbit was white or grey"})"
                         "\n"
                         R"({"query": "who slept", "positive": "some cats sleep all day"})"
                         "\n"
                         R"({"query": "which dog", "positive": "no dog came", "negative": "cats"})"
                         "\n");
  add_hard_negatives(data, 1);
  EXPECT_EQ(judged(data.examples[0]),
            (Judged{{"a white rabbit ran", 1}, {"the rabbit was white or grey", 0}}));
  // No other text has its words.
  EXPECT_EQ(data.examples[2].texts.size(), 2u);
  // It has some of its own.
  EXPECT_EQ(data.examples[3].texts.size(), 2u);
  for (const RerankExample& example : data.examples) {
    std::set<std::string> texts;
    for (const JudgedText& one : example.texts) {
      EXPECT_TRUE(texts.insert(one.text).second) << one.text;
    }
  }
}

TEST(RerankOptionsTest, AreReadFromTheFurtherOnes) {
  DataOptions options;
  EXPECT_EQ(rerank_task_options(options).hard_negatives, 0);
  for (OptionField& field : rerank_fields(options, OptionUse::training)) {
    if (auto* count = std::get_if<std::int64_t*>(&field.value)) **count = 3;
    if (auto* name = std::get_if<std::string*>(&field.value)) **name = "listwise";
  }
  EXPECT_EQ(rerank_task_options(options).hard_negatives, 3);
  EXPECT_EQ(rerank_task_options(options).loss, RerankLoss::listwise);
}

}  // namespace
}  // namespace longformer::tasks::rerank_test
