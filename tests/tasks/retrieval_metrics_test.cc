// Retrieval: metrics by numbers that were worked out by hand, by the scores of trec_eval
// (tests/fixtures/make_retrieval.py), and by what must hold of any ranking; and the reading of
// corpora, judgements and runs.
#include "tasks/retrieval/retrieval_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "core/random.h"
#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "temporary_folder.h"

namespace longformer::tasks::retrieval_metrics_test {
namespace {

const std::filesystem::path kFixture = fixtures_folder() / "retrieval";

using Scores = std::map<std::string, double>;

Scores by_name(const RetrievalScores& scores) {
  const auto named = scores.named();
  return {named.begin(), named.end()};
}

/// A document for each letter, with falling scores.
Ranking ranking_of(const std::string& letters) {
  Ranking ranking;
  for (const char letter : letters) {
    ranking.push_back({std::string(1, letter), -static_cast<float>(ranking.size())});
  }
  return ranking;
}

std::string letters_of(const Ranking& ranking) {
  std::string letters;
  for (const ScoredDocument& one : ranking) letters += one.id;
  return letters;
}

void expect_equal(const Scores& found, const Scores& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (const auto& [name, value] : expected) {
    EXPECT_TRUE(std::abs(found.at(name) - value) <= 1e-12)
        << what << ": " << name << " " << found.at(name) << " instead of " << value;
  }
}

TEST(RetrievalMetrics, WorkedByHand) {
  // Relevant: a (3), c (1) and z (2), which nothing found; b and x are judged as not relevant.
  const Relevance relevance = {{"a", 3}, {"b", 0}, {"c", 1}, {"x", -1}, {"z", 2}};
  const Scores scores = by_name(retrieval_scores(ranking_of("bxcda"), relevance));
  const double gain = 1 / std::log2(4) + 3 / std::log2(6);
  const double ideal = 3 + 2 / std::log2(3) + 1 / std::log2(4);
  expect_equal(scores,
               {{"ndcg_at_10", gain / ideal},
                {"mrr_at_10", 1.0 / 3},
                {"map", (1.0 / 3 + 2.0 / 5) / 3},
                {"recall_at_1", 0},
                {"recall_at_5", 2.0 / 3},
                {"recall_at_10", 2.0 / 3},
                {"recall_at_100", 2.0 / 3},
                {"recall_at_1000", 2.0 / 3}},
               "by hand");
  EXPECT_EQ(RetrievalScores().named().front().first, "ndcg_at_10");
}

TEST(RetrievalMetrics, LookAtTheFirstTen) {
  const Scores scores = by_name(retrieval_scores(ranking_of("abcdefghijK"), {{"K", 1}}));
  expect_equal(scores,
               {{"ndcg_at_10", 0},
                {"mrr_at_10", 0},
                {"map", 1.0 / 11},
                {"recall_at_1", 0},
                {"recall_at_5", 0},
                {"recall_at_10", 0},
                {"recall_at_100", 1},
                {"recall_at_1000", 1}},
               "rank 11");
  // The best order of eleven relevant documents has ten at its top.
  Relevance eleven;
  for (const char letter : std::string("abcdefghijK")) eleven[std::string(1, letter)] = 1;
  EXPECT_EQ(retrieval_scores(ranking_of("abcdefghijK"), eleven).ndcg, 1);
  EXPECT_TRUE(std::abs(retrieval_scores(ranking_of("a"), eleven).recall[4] - 1.0 / 11) <= 1e-12);
}

TEST(RetrievalMetrics, WithoutAnythingRelevantAre0) {
  for (const auto& [name, value] :
       retrieval_scores(ranking_of("ab"), {{"a", 0}, {"b", -3}}).named())
    EXPECT_EQ(value, 0) << name;
  for (const auto& [name, value] : retrieval_scores({}, {{"a", 1}}).named()) {
    EXPECT_EQ(value, 0) << name;
  }
  EXPECT_EQ(RetrievalCounter().mean().ndcg, 0);
}

TEST(RetrievalMetrics, TiesGoToTheLastId) {
  Ranking ranking = {{"a", 1}, {"c", 1}, {"b", 2}, {"\u00e9", 1}, {"B", 1}};
  sort_as_trec_eval(ranking);
  EXPECT_EQ(letters_of(ranking), "b\u00e9caB");
}

TEST(RetrievalMetrics, EqualTrecEval) {
  const auto cases = formats::read_json(kFixture / "cases.json")["cases"];
  ASSERT_EQ(cases.size(), 60u);
  for (const auto& one : cases) {
    Ranking ranking;
    for (const auto& [id, score] : one["run"].items()) ranking.push_back({id, score.get<float>()});
    sort_as_trec_eval(ranking);
    expect_equal(by_name(retrieval_scores(ranking, one["relevance"].get<Relevance>())),
                 one["scores"].get<Scores>(), one["relevance"].dump());
  }
}

/// A random order of letters, of which some are relevant.
TEST(RetrievalMetrics, HoldWhatMustHold) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::string letters = "abcdefghijklmno";
    for (std::size_t i = letters.size(); i > 1; --i) {
      std::swap(letters[i - 1], letters[random_bits(seed, i) % i]);
    }
    Relevance relevance;
    for (std::size_t i = 0; i < letters.size(); i += 1 + random_bits(seed, 100 + i) % 4) {
      relevance[std::string(1, letters[i])] =
          static_cast<std::int64_t>(random_bits(seed, 200 + i) % 3);
    }
    const RetrievalScores scores = retrieval_scores(ranking_of(letters), relevance);
    double last = 0;
    for (const double recall : scores.recall) {
      EXPECT_TRUE(recall >= last && recall <= 1);
      last = recall;
    }
    for (const auto& [name, value] : scores.named()) EXPECT_TRUE(value >= 0 && value <= 1) << name;
    // A relevant document that moves up past one that is not makes no score worse.
    for (std::size_t i = 1; i < letters.size(); ++i) {
      const auto is_relevant = [&](char letter) {
        const auto found = relevance.find(std::string(1, letter));
        return found != relevance.end() && found->second > 0;
      };
      if (!is_relevant(letters[i]) || is_relevant(letters[i - 1])) continue;
      std::string better = letters;
      std::swap(better[i - 1], better[i]);
      const Scores before = by_name(scores);
      for (const auto& [name, value] : retrieval_scores(ranking_of(better), relevance).named()) {
        EXPECT_TRUE(value >= before.at(name)) << name;
      }
    }
  }
}

TEST(RetrievalMetrics, AreMeansOverQueries) {
  RetrievalCounter counter;
  counter.add(retrieval_scores(ranking_of("ab"), {{"a", 1}}));
  counter.add(retrieval_scores(ranking_of("ab"), {{"b", 1}}));
  counter.add(retrieval_scores({}, {{"b", 1}}));
  expect_equal(by_name(counter.mean()),
               {{"ndcg_at_10", (1 + 1 / std::log2(3)) / 3},
                {"mrr_at_10", 0.5},
                {"map", 0.5},
                {"recall_at_1", 1.0 / 3},
                {"recall_at_5", 2.0 / 3},
                {"recall_at_10", 2.0 / 3},
                {"recall_at_100", 2.0 / 3},
                {"recall_at_1000", 2.0 / 3}},
               "means");
}

DataOptions split(const std::string& name, bool skip_invalid = false) {
  DataOptions options;
  options.retrieval.split = name;
  options.skip_invalid = skip_invalid;
  return options;
}

TEST(RetrievalData, ReadsTheLayoutOfBeir) {
  const RetrievalData data = read_retrieval(kFixture, {});
  ASSERT_EQ(data.queries.size(), 5u);
  EXPECT_EQ(data.unjudged, 1);
  EXPECT_EQ(data.queries[1].origin.id, "q2");
  EXPECT_EQ(data.queries[1].origin.line, 2);
  EXPECT_EQ(data.queries[1].text, "a red boat");
  EXPECT_EQ(data.queries[1].relevance, (Relevance{{"d3", 3}, {"d4", -1}, {"d5", 1}}));
  DataReport report;
  std::map<std::string, std::string> texts;
  const auto ids = read_corpus(kFixture, {}, report, [&](const CorpusDocument& document) {
    texts[document.id] = document.text;
  });
  EXPECT_EQ(ids.size(), 8u);
  EXPECT_EQ(report.empty, 1);
  EXPECT_EQ(texts["d1"], "the dog he was in the house and it was not his dog");
  EXPECT_EQ(texts["d2"], "a cat is on the table");
  EXPECT_EQ(texts["d4"], "the river");
  EXPECT_EQ(texts["d7"], "one day he had not been there");
}

TEST(RetrievalData, ReadsTheColumnsOfTrec) {
  const RetrievalData data = read_retrieval(kFixture, split("dev"));
  ASSERT_EQ(data.queries.size(), 2u);
  EXPECT_EQ(data.unjudged, 4);
  EXPECT_EQ(data.queries[0].relevance, (Relevance{{"d6", 1}}));
  EXPECT_EQ(data.queries[1].relevance, (Relevance{{"d7", 2}}));
}

/// Files of a folder with one of them in another form.
std::map<std::string, std::string> files_with(const std::string& name, const std::string& text) {
  std::map<std::string, std::string> files = {
      {"corpus.jsonl", "{\"_id\": \"a\", \"text\": \"x\"}\n"},
      {"queries.jsonl", "{\"_id\": \"q\", \"text\": \"x\"}\n"},
      {"qrels/test.tsv", "q\ta\t1\n"}};
  files[name] = text;
  return files;
}

std::string error_with(const std::string& name, const std::string& text) {
  const TemporaryFolder folder(files_with(name, text));
  return error_of([&] {
    read_retrieval(folder.name(), {});
    DataReport report;
    read_corpus(folder.name(), {}, report, [](const CorpusDocument&) {});
  });
}

TEST(RetrievalData, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(error_with("qrels/test.tsv", "q\ta\t1\n"), "");
  const std::string query = "{\"_id\": \"q\", \"text\": \"x\"}\n";
  const std::string document = "{\"_id\": \"a\", \"text\": \"x\"}\n";
  struct Case {
    std::string file, text;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {"corpus.jsonl", document + document, {"corpus.jsonl:2", "no other document", "\"a\""}},
      {"corpus.jsonl", document + "{\"_id\": 7}\n", {"corpus.jsonl:2", "\"text\""}},
      {"corpus.jsonl", "{\"_id\": \"b\", \"title\": 3, \"text\": \"x\"}", {":1", "\"title\""}},
      {"corpus.jsonl", "{\"text\": \"x\"}\n", {"corpus.jsonl:1", "\"_id\"", "no such member"}},
      {"corpus.jsonl", "{\"_id\": \"\", \"text\": \"x\"}\n", {"corpus.jsonl:1", "empty text"}},
      {"corpus.jsonl", "{\n", {"corpus.jsonl:1", "skip_invalid"}},
      {"corpus.jsonl", "\n", {"corpus.jsonl", "at least one document"}},
      {"queries.jsonl", query + query, {"queries.jsonl:2", "no other query", "\"q\""}},
      {"queries.jsonl", "{\"_id\": \"q\", \"text\": \" \"}\n", {"queries.jsonl:1", "empty text"}},
      {"queries.jsonl", "", {"test.tsv:1", "expected a query of queries.jsonl", "\"q\""}},
      {"qrels/test.tsv", "query-id\tcorpus-id\tscore\n", {"test.tsv", "none for 1 queries"}},
      {"qrels/test.tsv", "q\ta\t1\nq\ta\t2\n", {"test.tsv:2", "a second one"}},
      {"qrels/test.tsv", "q\ta\t1\nq\tb\tmuch\n", {"test.tsv:2", "a whole number"}},
      {"qrels/test.tsv", "q\ta\t1.5\nq\tb\t1.5\n", {"test.tsv:2", "a whole number"}},
      {"qrels/test.tsv", "q\t\t1\n", {"test.tsv:1", "between tabs"}},
      {"qrels/test.tsv", "q a 1\n", {"test.tsv:1", "TREC's four columns"}},
      {"qrels/test.tsv", "q 0 a b c\n", {"test.tsv:1", "TREC's four columns"}},
      {"qrels/test.tsv", "q 0 a b\n", {"test.tsv:1", "TREC's four columns"}},
      {"qrels/test.tsv", "r\ta\t1\n", {"test.tsv:1", "\"r\"", "skip_invalid"}}};
  for (const Case& one : cases) expect_error(error_with(one.file, one.text), one.parts);
}

TEST(RetrievalData, LeavesOutWhatIsBroken) {
  const TemporaryFolder folder(
      files_with("qrels/test.tsv", "h\th\th\nr\ta\t1\nq\ta\t1\nq\ta\t2\nq\n"));
  const RetrievalData data = read_retrieval(folder.name(), split("test", true));
  ASSERT_EQ(data.queries.size(), 1u);
  EXPECT_EQ(data.queries[0].relevance, (Relevance{{"a", 1}}));
  EXPECT_EQ(data.report.skipped, 3);
  EXPECT_NE(data.report.first_skipped().find("test.tsv:2"), std::string::npos);
}

TEST(RetrievalData, NamesTheFileThatIsMissing) {
  for (const std::string name : {"corpus.jsonl", "queries.jsonl", "qrels/test.tsv"}) {
    const TemporaryFolder folder(files_with("qrels/dev.tsv", "q\ta\t1\n"));
    std::filesystem::remove(folder.path() / name);
    expect_error(error_of([&] {
                   read_retrieval(folder.name(), {});
                   DataReport report;
                   read_corpus(folder.name(), {}, report, [](const CorpusDocument&) {});
                 }),
                 {folder.name(), name});
  }
  const TemporaryFolder folder(files_with("qrels/dev.tsv", ""));
  expect_error(error_of([&] { read_retrieval(folder.name(), split("train")); }),
               {"qrels/train.tsv", "those of dev, test"});
  expect_error(error_of([&] { read_retrieval("/nowhere", {}); }), {"/nowhere", "found none"});
  expect_error(error_of([&] { read_retrieval(folder.path() / "queries.jsonl", {}); }),
               {"a folder with corpus.jsonl", "found a file"});
  EXPECT_TRUE(is_retrieval_data(folder.name()));
  EXPECT_FALSE(is_retrieval_data(folder.path() / "qrels"));
}

TEST(RetrievalData, ReadsRunsAndWritesThem) {
  TemporaryFolder folder;
  const std::string file =
      folder.add("run", "q Q0 a 9 0.25 tag\n\nq\tQ0\tb\t9\t1e0\ttag\r\np Q0 a 1 -inf x");
  const auto run = read_run(file);
  ASSERT_EQ(run.size(), 2u);
  EXPECT_EQ(letters_of(run.at("q")), "ba");
  EXPECT_EQ(run.at("q")[1].score, 0.25f);
  EXPECT_EQ(run_lines("q", run.at("q")), "q Q0 b 1 1 longformer\nq Q0 a 2 0.25 longformer\n");
  // Scores come back as they were.
  const Ranking third = {{"a", 1.0f / 3}, {"b", -1e-30f}};
  const auto again = read_run(folder.add("again", run_lines("q", third)));
  EXPECT_EQ(again.at("q")[0].score, third[0].score);
  EXPECT_EQ(again.at("q")[1].score, third[1].score);
  expect_error(error_of([] { run_lines("q", {{"a b", 1}}); }), {"blanks", "a b"});
  for (const std::string text :
       {"q Q0 a 1 0.5", "q Q0 a 1 x t", "q Q0 a 1 nan t", "q Q0 a 1 1e99 t", "q Q0 a 1 1 t u"}) {
    const std::string bad = folder.add("bad", "q Q0 c 1 1 t\n" + text + "\n");
    expect_error(error_of([&] { read_run(bad); }), {"bad:2", "Q0, document"});
  }
  const std::string twice = folder.add("twice", "q Q0 a 1 1 t\nq Q0 a 2 0 t\n");
  expect_error(error_of([&] { read_run(twice); }), {"twice:2", "once for each query", "\"a\""});
}

}  // namespace
}  // namespace longformer::tasks::retrieval_metrics_test
