// TriviaQA (docs/spec/tasks.md#t1): its files, what becomes of a document, the loss over all rows
// of one, the best span of its rows, and the metric.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "error_testing.h"
#include "fixtures.h"
#include "formats/safetensors.h"
#include "longformer/analysis.h"
#include "longformer/tasks.h"
#include "tasks/question_answering/answer_matching.h"
#include "tasks/question_answering/answers.h"
#include "tasks/question_answering/question_answering.h"
#include "tasks/question_answering/question_data.h"
#include "tasks/question_answering/trivia_answering.h"
#include "tasks/question_answering/trivia_data.h"
#include "tasks/question_answering/trivia_metrics.h"
#include "temporary_folder.h"

namespace longformer::tasks::trivia_test {
namespace {

using TestJson = nlohmann::json;
using Strings = std::vector<std::string>;
using Positions = std::vector<Index>;

const std::filesystem::path kTriviaFixtures = fixtures_folder();

TestJson trivia_question(const std::string& id, const Strings& aliases, const Strings& wiki,
                         const Strings& web = {}) {
  TestJson question = {{"QuestionId", id},
                       {"Question", "Who was it?"},
                       {"Answer", {{"NormalizedAliases", aliases}, {"Value", "x"}}}};
  for (const std::string& file : wiki) question["EntityPages"].push_back({{"Filename", file}});
  for (const std::string& file : web) question["SearchResults"].push_back({{"Filename", file}});
  return question;
}

TestJson trivia_file(const std::string& domain, const std::vector<TestJson>& questions,
                     bool verified = false) {
  return {{"Data", questions}, {"Domain", domain}, {"VerifiedEval", verified}, {"Version", 1.0}};
}

class TriviaFiles : public testing::Test {
 protected:
  TemporaryFolder folder_{{{"evidence/wikipedia/A.txt", "He was Ada\r\n."},
                           {"evidence/wikipedia/B.txt", ""},
                           {"evidence/web/1/1_2.txt", "It was ada."}}};

  TriviaData read(const TestJson& json, const DataOptions& options = {},
                  const std::string& name = "qa/x.json") {
    return read_trivia(folder_.add(name, json.dump()), options);
  }
  std::string read_error(const TestJson& json) {
    return error_of([&] { read(json); });
  }
};

Strings keys_of(const TriviaData& data) {
  Strings keys;
  for (const TriviaExample& example : data.examples) keys.push_back(example.key);
  return keys;
}

TEST_F(TriviaFiles, WikipediaHasDocumentsOfEntityPagesUnderTheKeyOfTheQuestion) {
  TestJson question = trivia_question("q1", {"ada"}, {"A.txt", "B.txt"}, {"1/1_2.txt"});
  question["Answer"]["HumanAnswers"] = Strings{"The Ada-Lovelace"};
  const TriviaData data = read(trivia_file("Wikipedia", {question}));
  EXPECT_EQ(keys_of(data), (Strings{"q1", "q1"}));
  EXPECT_EQ(data.examples[0].question->answers, (Strings{"ada", "ada lovelace"}));
  // Line ends are characters as they stand.
  EXPECT_EQ(text_of(data.examples[0], {}), "He was Ada\r\n.");
  EXPECT_EQ(text_of(data.examples[1], {}), "");
  EXPECT_EQ(data.gold.size(), 1u);
  EXPECT_EQ(data.report.examples, 2);
  EXPECT_EQ(data.examples[1].origin.id, "q1--B.txt");
}

TEST_F(TriviaFiles, WebHasDocumentsOfBothListsEachWithAKeyOfItsOwn) {
  const TriviaData data =
      read(trivia_file("Web", {trivia_question("q1", {"ada"}, {"A.txt"}, {"1/1_2.txt"})}));
  EXPECT_EQ(keys_of(data), (Strings{"q1--A.txt", "q1--1/1_2.txt"}));
  EXPECT_EQ(text_of(data.examples[1], {}), "It was ada.");
  EXPECT_EQ(data.gold.size(), 2u);
}

TEST_F(TriviaFiles, OfVerifiedFilesOnlyWhatIsVerifiedCounts) {
  TestJson in = trivia_question("in", {"ada"}, {"A.txt"}, {"1/1_2.txt"});
  TestJson out = trivia_question("out", {"ada"}, {"A.txt"});
  in["QuestionPartOfVerifiedEval"] = true;
  out["QuestionPartOfVerifiedEval"] = false;
  in["EntityPages"][0]["DocPartOfVerifiedEval"] = false;
  in["SearchResults"][0]["DocPartOfVerifiedEval"] = true;
  EXPECT_EQ(keys_of(read(trivia_file("Web", {in, out}, true))), (Strings{"in--1/1_2.txt"}));
  // Pages of Wikipedia are not asked.
  EXPECT_EQ(keys_of(read(trivia_file("Wikipedia", {in, out}, true))), (Strings{"in"}));
  in["SearchResults"][0]["DocPartOfVerifiedEval"] = false;
  expect_error(read_error(trivia_file("Web", {in}, true)), {"record 1", "\"in\"", "verified"});
  in.erase("QuestionPartOfVerifiedEval");
  expect_error(read_error(trivia_file("Web", {in}, true)),
               {"record 1", "QuestionPartOfVerifiedEval", "none"});
}

TEST_F(TriviaFiles, ListsMayBeMissing) {
  TestJson question = trivia_question("q", {"ada"}, {});
  const TestJson other = trivia_question("r", {"ada"}, {"A.txt"});
  EXPECT_EQ(read(trivia_file("Wikipedia", {question, other})).gold.size(), 2u);
  EXPECT_EQ(read(trivia_file("Web", {question, other})).gold.size(), 1u);
  TestJson unknown = other;
  unknown.erase("Answer");
  const TriviaData test = read(trivia_file("Wikipedia", {unknown}));
  EXPECT_FALSE(test.has_answers);
  EXPECT_TRUE(test.gold.empty());
  TestJson plain = other;
  plain["Answer"] = {{"Aliases", Strings{"The Ada-L."}}};
  EXPECT_EQ(read(trivia_file("Web", {plain})).examples[0].question->answers, (Strings{"ada l"}));
}

TEST_F(TriviaFiles, TheEvidenceIsBesideTheFolderOfTheFileOrWhereItIsNamed) {
  const TestJson file = trivia_file("Wikipedia", {trivia_question("q", {"ada"}, {"C.txt"})});
  const TriviaData data = read(file);
  const std::string message = error_of([&] { text_of(data.examples[0], {}); });
  expect_error(message, {"/evidence/wikipedia/C.txt", "no such file", "{evidence}"});
  folder_.add("other/wikipedia/C.txt", "there");
  DataOptions options;
  options.trivia.evidence = folder_.name() + "/other";
  EXPECT_EQ(text_of(read(file, options).examples[0], {}), "there");
}

TEST_F(TriviaFiles, DocumentsDoNotLeaveTheFolder) {
  for (const std::string& name :
       {std::string("../A.txt"), std::string("/etc/passwd"), std::string("x/../../A.txt"),
        std::string(""), std::string("."), std::string("A.txt\0b", 7), std::string("a/..")}) {
    const std::string message =
        read_error(trivia_file("Wikipedia", {trivia_question("q7", {"ada"}, {name})}));
    expect_error(message, {"x.json: record 1", "\"q7\"", "inside the folder of evidence"});
  }
  EXPECT_EQ(read_error(trivia_file("Wikipedia", {trivia_question("q", {"a"}, {"x/../A.txt"})})),
            "");
}

TEST_F(TriviaFiles, BrokenRecordsAreNamedOrLeftOutAndCounted) {
  TestJson nameless = trivia_question("q", {"ada"}, {"A.txt"});
  nameless.erase("QuestionId");
  expect_error(read_error(trivia_file("Web", {nameless})), {"record 1", "QuestionId"});
  const TestJson silent = trivia_question("q2", {}, {"A.txt"});
  expect_error(read_error(trivia_file("Web", {silent})), {"\"q2\"", "at least one answer"});
  TestJson fileless = trivia_question("q3", {"ada"}, {"A.txt"});
  fileless["EntityPages"][0].erase("Filename");
  expect_error(read_error(trivia_file("Web", {fileless})), {"\"q3\"", "Filename"});
  expect_error(read_error(trivia_file("Book", {})), {"Domain", "Book"});
  expect_error(read_error({{"x", 1}}), {"Domain", "object of 1 keys"});
  expect_error(read_error(trivia_file("Web", {})), {"at least one question"});
  DataOptions options;
  options.skip_invalid = true;
  const TestJson good = trivia_question("good", {"ada"}, {"A.txt"});
  const TriviaData data = read(trivia_file("Web", {nameless, good, silent}), options);
  EXPECT_EQ(keys_of(data), (Strings{"good--A.txt"}));
  EXPECT_EQ(data.report.skipped, 2);
  EXPECT_NE(data.report.first_skipped().find("record 1"), std::string::npos);
}

TestJson squad_form(const Strings& ids) {
  TestJson data = TestJson::array();
  for (const std::string& id : ids) {
    const TestJson qa = {
        {"id", id}, {"question", "Who?"}, {"aliases", Strings{"ada"}}, {"answers", Strings()}};
    TestJson paragraph = {{"context", "It was Ada."}};
    paragraph["qas"].push_back(qa);
    TestJson article;
    article["paragraphs"].push_back(paragraph);
    data.push_back(article);
  }
  return {{"data", data}};
}

TEST_F(TriviaFiles, TheFormOfSquadThatTheAuthorsGiveIt) {
  const TestJson file = squad_form({"q--A.txt", "q--B.txt"});
  EXPECT_EQ(keys_of(read(file, {}, "squad-wikipedia-dev.json")), (Strings{"q", "q"}));
  EXPECT_EQ(keys_of(read(file, {}, "squad-web-dev.json")), (Strings{"q--A.txt", "q--B.txt"}));
  EXPECT_TRUE(is_trivia_data(folder_.name() + "/squad-web-dev.json", {}));
  TestJson broken = file;
  broken["data"][1]["paragraphs"][0]["qas"][0].erase("aliases");
  expect_error(read_error(broken), {"article 2", "record 2", "aliases"});
  const std::string squad = folder_.add(
      "s.json",
      R"({"data": [{"paragraphs": [{"context": "a \"aliases\"", "qas": [{"id": "1", "question": "q", "answers": []}]}]}]})");
  EXPECT_FALSE(is_trivia_data(squad, {}));
  EXPECT_EQ(question_answering().read(squad, {}, {})->metric_names().front(), "f1");
  EXPECT_TRUE(
      question_answering().read(folder_.name() + "/squad-web-dev.json", {}, {})->metric_names() ==
      (Strings{"f1", "exact_match", "common", "denominator"}));
}

/// Rows of one document, with a tokenizer of whole words and their pieces.
class TriviaRows : public testing::Test {
 protected:
  Tokenizer tokenizer_ =
      Tokenizer::load((kTriviaFixtures / "tokenizers" / "bert_uncased").string());

  static TriviaExample example(const std::string& text, const Strings& answers) {
    TriviaExample example;
    auto question = std::make_shared<TriviaQuestion>();
    question->id = "q";
    question->text = "who was it and where was it";
    question->answers = answers;
    example.question = std::move(question);
    example.text = std::make_shared<const std::string>(text);
    return example;
  }
  Collator collator(const ReadingOptions& options) const { return {tokenizer_, options}; }
};

const std::string kLongText =
    "the man was in the house and the woman was in the garden . of the house he was in the house "
    "and she was at the house with the man . the man was in the house";

TEST_F(TriviaRows, OfADocumentAreOneExampleWithEverySpanThatTheyHoldWhole) {
  const TriviaExample one = example(kLongText, {"house", "man was in"});
  for (const Index stride : {0, 3, 8}) {
    Collator rows = collator({.max_tokens = 30, .too_long = TooLong::split, .stride = stride});
    const auto examples = collate(rows, one, {});
    ASSERT_EQ(examples.size(), 1u);
    const Reading reading = rows.reader().read(one.question->text, kLongText);
    ASSERT_GT(reading.ranges.size(), 2u);
    ASSERT_EQ(examples[0].rows.size(), reading.ranges.size());
    std::size_t spans = 0;
    for (std::size_t r = 0; r < reading.ranges.size(); ++r) {
      // Tried out: every run of tokens of the row whose text the metric takes as right.
      std::set<Index> starts, ends;
      const TokenRange range = reading.ranges[r];
      for (Index first = range.begin; first < range.end; ++first) {
        for (Index end = first + 1; end <= range.end; ++end) {
          const std::string text = text_of(reading, {first, end});
          const bool right = score_trivia_answer(text, one.question->answers).exact_match == 1;
          // From the first to the last word that counts, and no part of a word.
          const bool trimmed = !text.starts_with("the ") && !text.ends_with(" the") &&
                               text.back() != '.' && text.front() != '.';
          const Index before = reading.encoding.offsets[static_cast<std::size_t>(first)].begin - 1;
          const bool inside = before >= 0 && kLongText[static_cast<std::size_t>(before)] != ' ';
          if (!right || !trimmed || inside) continue;
          starts.insert(first - range.begin + reading.prefix);
          ends.insert(end - 1 - range.begin + reading.prefix);
          ++spans;
        }
      }
      const auto& target = examples[0].targets[r];
      EXPECT_EQ(target.starts, Positions(starts.begin(), starts.end())) << "row " << r;
      EXPECT_EQ(target.ends, Positions(ends.begin(), ends.end())) << "row " << r;
    }
    EXPECT_GT(spans, 6u);
    EXPECT_EQ(rows.report().documents, 1);
    EXPECT_EQ(rows.report().rows, std::ssize(reading.ranges));
  }
}

TEST_F(TriviaRows, TheFirstSpanAloneIsInOneRow) {
  Collator rows = collator({.max_tokens = 30, .too_long = TooLong::split, .stride = 8});
  const auto examples = collate(rows, example(kLongText, {"woman", "house"}),
                                {.trivia = {.loss = AnswerLoss::first}});
  ASSERT_EQ(examples.size(), 1u);
  std::size_t starts = 0;
  for (const DocumentTarget& target : examples[0].targets) starts += target.starts.size();
  EXPECT_EQ(starts, 1u);
  const auto& target = examples[0].targets[0];
  ASSERT_EQ(target.starts.size(), 1u);
  const Reading reading = rows.reader().read(example("", {}).question->text, kLongText);
  const Index token = target.starts[0] - reading.prefix;
  EXPECT_EQ(text_of(reading, {token, token + 1}), "house");
  EXPECT_EQ(target.ends, target.starts);
}

TEST_F(TriviaRows, DocumentsWithoutARightSpanInWhatIsReadAreDroppedAndCounted) {
  const std::string text = kLongText + " with london";
  Collator cut = collator({.max_tokens = 30, .too_long = TooLong::truncate});
  EXPECT_TRUE(collate(cut, example(text, {"london"}), {}).empty());
  EXPECT_TRUE(collate(cut, example("", {"london"}), {}).empty());
  EXPECT_EQ(collate(cut, example(text, {"woman"}), {}).size(), 1u);
  EXPECT_EQ(cut.report().counts["unreached_answers"], 2);
  EXPECT_EQ(cut.report().documents, 3);
  EXPECT_EQ(cut.report().counts["truncated_documents"], 2);
  EXPECT_EQ(cut.report().rows, 1);
  EXPECT_EQ(cut.report().data.empty, 1);
  Collator split = collator({.max_tokens = 30, .too_long = TooLong::split, .stride = 0});
  EXPECT_EQ(collate(split, example(text, {"london"}), {}).size(), 1u);
}

TEST_F(TriviaRows, QuestionsAreCut) {
  const TriviaExample one = example("the house", {"house"});
  Collator whole = collator({.max_tokens = 64});
  Collator cut = collator({.max_tokens = 64, .max_question_tokens = 3});
  const auto of_whole = collate(whole, one, {}), of_cut = collate(cut, one, {});
  const auto question = encode_plain(tokenizer_, one.question->text).ids;
  ASSERT_GT(question.size(), 3u);
  const auto left_out = std::ssize(question) - 3;
  auto expected = of_whole[0].rows[0].ids;
  // Behind the first token and three of the question.
  expected.erase(expected.begin() + 4, expected.begin() + 4 + left_out);
  EXPECT_EQ(of_cut[0].rows[0].ids, expected);
  EXPECT_EQ(of_cut[0].targets[0].starts[0], of_whole[0].targets[0].starts[0] - left_out);
}

TEST(TriviaLoss, OneSoftmaxGoesOverAllRowsOfADocument) {
  const std::string folder = (kTriviaFixtures / "tiny_longformer_qa").string();
  const GradientModel model = GradientModel::load(folder);
  const Model serving = Model::load(folder);
  std::vector<std::vector<std::int32_t>> ids = {{2, 11, 12, 3, 3, 13, 14, 15, 16, 3},
                                                {2, 11, 12, 3, 3, 17, 18, 3},
                                                {2, 11, 12, 3, 3, 19, 20, 21, 22, 3},
                                                {2, 9, 3, 3, 23, 24, 25, 3},
                                                {2, 8, 3, 3, 23, 24, 25, 3}};
  std::vector<DocumentInput> inputs;
  for (const auto& row : ids) inputs.emplace_back().ids = row;
  std::vector<DocumentTarget> targets(5);
  targets[0].starts = {5, 7};
  targets[0].ends = {5, 8};
  targets[2].starts = {6};
  targets[2].ends = {7};
  targets[3].starts = targets[3].ends = {5};
  // The last document has no right span, and does not count.
  const std::vector<std::int64_t> rows = {3, 1, 1};
  const LossGradients found = model.loss_and_gradients(inputs, targets, rows);

  const auto outputs = serving.forward(inputs);
  const std::size_t width = outputs[0].last_hidden_state.size() / ids[0].size();
  double loss = 0;
  std::vector<double> gradient(2 * width);
  for (const bool end : {false, true}) {
    for (std::size_t document = 0; document < 2; ++document) {
      const std::size_t first = document == 0 ? 0 : 3, behind = document == 0 ? 3 : 4;
      double all = 0, right = 0;
      const auto each = [&](const auto& use) {
        for (std::size_t r = first; r < behind; ++r) {
          const auto& logits = end ? outputs[r].end_logits : outputs[r].start_logits;
          const auto& places = end ? targets[r].ends : targets[r].starts;
          for (std::size_t i = 0; i < logits.size(); ++i) {
            const bool is_right = std::find(places.begin(), places.end(),
                                            static_cast<std::int64_t>(i)) != places.end();
            use(r, i, std::exp(static_cast<double>(logits[i])), is_right);
          }
        }
      };
      each([&](std::size_t, std::size_t, double value, bool is_right) {
        all += value;
        right += is_right ? value : 0;
      });
      loss += -std::log(right / all) / 4;
      each([&](std::size_t r, std::size_t i, double value, bool is_right) {
        const double share = (value / all - (is_right ? value / right : 0)) / 4;
        for (std::size_t d = 0; d < width; ++d) {
          gradient[(end ? width : 0) + d] +=
              share * static_cast<double>(outputs[r].last_hidden_state[i * width + d]);
        }
      });
    }
  }
  EXPECT_TRUE(std::abs(found.loss - loss) <= 1e-6) << found.loss << " " << loss;
  const auto weight =
      std::find_if(found.gradients.begin(), found.gradients.end(),
                   [](const NamedGradient& one) { return one.name == "qa_outputs.weight"; });
  ASSERT_NE(weight, found.gradients.end());
  ASSERT_EQ(weight->values.size(), gradient.size());
  double largest = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_TRUE(std::abs(static_cast<double>(weight->values[i]) - gradient[i]) <= 1e-6);
    largest = std::max(largest, std::abs(gradient[i]));
  }
  EXPECT_GT(largest, 1e-3);
  // A row by itself is a document, as ever.
  EXPECT_FALSE(std::abs(model.loss_and_gradients(inputs, targets).loss - loss) <= 1e-4);
  expect_error(error_of([&] {
                 model.loss_and_gradients(inputs, targets, std::vector<std::int64_t>{3, 1});
               }),
               {"expected 5", "found 4"});
}

/// Documents of several rows, and what PyTorch says of them (tests/fixtures/make_trivia.py).
class TriviaGradients : public testing::Test {
 protected:
  TriviaGradients() {
    for (int document = 0; has_row(document, 0); ++document) {
      int rows = 0;
      while (has_row(document, rows)) add_row(document, rows++);
      rows_.push_back(rows);
    }
  }

  const Tensor& tensor(const std::string& key) const { return file_.tensors().at(key); }

  formats::SafetensorsFile file_ = formats::SafetensorsFile::open(
      (kTriviaFixtures / "trivia" / "expected.safetensors").string());
  std::vector<DocumentInput> inputs_;
  std::vector<DocumentTarget> targets_;
  std::vector<std::int64_t> rows_;

 private:
  static std::string name_of(int document, int row) {
    return std::to_string(document) + "." + std::to_string(row) + ".";
  }
  bool has_row(int document, int row) const {
    return file_.tensors().contains(name_of(document, row) + "ids");
  }
  template <typename Number>
  std::vector<Number> integers(const std::string& key) const {
    const auto* data = tensor(key).data<std::int32_t>();
    return {data, data + tensor(key).size()};
  }
  void add_row(int document, int row) {
    const std::string name = name_of(document, row);
    DocumentInput& input = inputs_.emplace_back();
    ids_.push_back(integers<std::int32_t>(name + "ids"));
    input.ids = ids_.back();
    globals_.push_back(integers<std::int32_t>(name + "globals"));
    input.global_attention_mask = globals_.back();
    DocumentTarget& target = targets_.emplace_back();
    target.starts = integers<std::int64_t>(name + "starts");
    target.ends = integers<std::int64_t>(name + "ends");
  }

  std::vector<std::vector<std::int32_t>> ids_, globals_;
};

TEST_F(TriviaGradients, AreThoseOfPyTorchForEveryTensor) {
  ASSERT_EQ(rows_, (std::vector<std::int64_t>{3, 1}));
  const GradientModel model =
      GradientModel::load((kTriviaFixtures / "tiny_longformer_qa").string());
  const LossGradients found = model.loss_and_gradients(inputs_, targets_, rows_);
  const auto loss = static_cast<double>(tensor("loss").to_floats()[0]);
  EXPECT_TRUE(std::abs(found.loss - loss) <= 1e-5) << found.loss << " " << loss;
  std::ptrdiff_t compared = 0;
  for (const NamedGradient& one : found.gradients) {
    const std::vector<float> right = tensor("gradient." + one.name).to_floats();
    ASSERT_EQ(one.values.size(), right.size()) << one.name;
    double largest = 0;
    for (const float value : right) largest = std::max(largest, std::abs(double{value}));
    for (std::size_t i = 0; i < right.size(); ++i) {
      const double difference = std::abs(double{one.values[i]} - double{right[i]});
      ASSERT_TRUE(difference <= 2e-5 * std::max(0.1, largest))
          << one.name << " " << i << ": " << one.values[i] << ", expected " << right[i];
    }
    ++compared;
  }
  EXPECT_EQ(compared, std::count_if(file_.tensors().begin(), file_.tensors().end(),
                                    [](auto& one) { return one.first.starts_with("gradient."); }));
}

TEST(TriviaDecoding, TheBestRowWinsWhereverASpanHasMostContext) {
  // Two rows that share tokens 2 to 4; the overlap is better in the second row at its border.
  const std::vector<float> start0 = {0, 0, 1, 0, 0}, end0 = {0, 0, 0, 1, 0};
  const std::vector<float> start1 = {5, 0, 0, 0}, end1 = {0, 3, 0, 3};
  const std::vector<SegmentLogits> rows = {{.range = {0, 5}, .start = start0, .end = end0},
                                           {.range = {2, 6}, .start = start1, .end = end1}};
  const std::vector<std::uint8_t> words(6, 0);
  const auto best = best_of_rows(rows, words, 30);
  ASSERT_TRUE(best.has_value());
  // The shorter one of equals.
  EXPECT_EQ(best->tokens.begin, 2);
  EXPECT_EQ(best->tokens.end, 4);
  EXPECT_EQ(best->logit, 8);
  EXPECT_EQ(best_of_rows(rows, words, 1)->logit, 5);
  const std::vector<std::uint8_t> inside = {0, 0, 1, 0, 1, 0};
  EXPECT_EQ(best_of_rows(rows, inside, 30)->tokens.begin, 1);
  EXPECT_EQ(best_of_rows(rows, inside, 30)->tokens.end, 5);
  const std::vector<SegmentLogits> none = {{.range = {0, 0}, .start = {}, .end = {}}};
  EXPECT_FALSE(best_of_rows(none, {}, 30).has_value());
}

TEST(TriviaDecoding, OfEqualSpansTheEarlierAndThenTheShorterOne) {
  const std::vector<float> zero(4, 0.0f);
  const std::vector<SegmentLogits> rows = {{.range = {2, 6}, .start = zero, .end = zero},
                                           {.range = {0, 4}, .start = zero, .end = zero}};
  const auto best = best_of_rows(rows, std::vector<std::uint8_t>(6, 0), 30);
  EXPECT_EQ(best->tokens.begin, 0);
  EXPECT_EQ(best->tokens.end, 1);
}

TEST(TriviaMetric, Traps) {
  const auto f1 = [](const std::string& said, const Strings& right) {
    return score_trivia_answer(said, right).f1;
  };
  const auto em = [](const std::string& said, const Strings& right) {
    return score_trivia_answer(said, right).exact_match;
  };
  EXPECT_EQ(em("Campbell-Bannerman", {"campbell bannerman"}), 1);
  EXPECT_EQ(em("CampbellBannerman", {"campbell bannerman"}), 0);
  // Nothing in common: F1 is 0 and the answers are equal.
  EXPECT_EQ(em("The", {""}), 1);
  EXPECT_EQ(f1("The", {""}), 0);
  EXPECT_EQ(f1("x x y", {"x y y z"}), 2.0 * 2 / 7);
  EXPECT_EQ(f1("x y", {"z", "x"}), 2.0 / 3);
  EXPECT_EQ(em("x", {}), 0);
  EXPECT_EQ(f1("x", {}), 0);
}

TEST(BestAnswersOfDocuments, AreRankedByLogit) {
  BestAnswers best(2);
  const auto answer = [](float logit) { return Answer{1 - logit, logit, {}, "x"}; };
  best.add(0, std::vector<Answer>{answer(0.2f), answer(0.1f)});
  best.add(1, std::vector<Answer>{answer(0.3f), answer(0.2f)});
  ASSERT_EQ(best.answers().size(), 2u);
  EXPECT_EQ(best.answers()[0].document, 1u);
  EXPECT_EQ(best.answers()[1].document, 0u);
  EXPECT_EQ(best.answers()[1].answer.logit, 0.2f);
  expect_error(error_of([] { BestAnswers(0); }), {"at least 1", "0"});
}

TEST(BestAnswersOfDocuments, AreThoseOfEachDocumentAlone) {
  const auto answerer = QuestionAnswerer::load((kTriviaFixtures / "tiny_longformer_qa").string());
  const Strings documents = {"he was in london", "she was at the house", "it was in the house"};
  AnswerOptions options;
  options.top_k = 4;
  const auto best = answerer.best_answers("who was it", documents, options);
  std::vector<DocumentAnswer> expected;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    const Question question = {"who was it", documents[d]};
    const auto alone = answerer.answer({&question, 1}, options);
    for (const Answer& answer : alone[0].answers) expected.push_back({d, answer});
  }
  std::stable_sort(expected.begin(), expected.end(),
                   [](const auto& a, const auto& b) { return a.answer.logit > b.answer.logit; });
  ASSERT_EQ(best.size(), 4u);
  for (std::size_t i = 0; i < best.size(); ++i) {
    EXPECT_EQ(best[i].document, expected[i].document);
    EXPECT_EQ(best[i].answer.text, expected[i].answer.text);
    EXPECT_TRUE(std::abs(best[i].answer.logit - expected[i].answer.logit) <= 1e-4f);
  }
  std::string longer;
  for (int i = 0; i < 50; ++i) longer += "the house ";
  expect_error(error_of([&] {
                 answerer.best_answers("who", Strings{documents[0], longer});
               }),
               {"document 1", "41 tokens"});
}

}  // namespace
}  // namespace longformer::tasks::trivia_test
