// Data sets in every format, published ones as they are, and files that are broken.
#include <gtest/gtest.h>

#include <algorithm>

#include "error_testing.h"
#include "tasks/choice/choice_data.h"
#include "tasks/classification/classification_data.h"
#include "tasks/question_answering/question_data.h"
#include "tasks/tagging/tagging_data.h"
#include "temporary_folder.h"
#include "text/delimited.h"

namespace longformer::tasks::data_test {
namespace {

using Strings = std::vector<std::string>;

class DataTest : public testing::Test {
 protected:
  TemporaryFolder folder_;

  ClassificationData classification(const std::string& file, const std::string& contents,
                                    const DataOptions& options = {},
                                    const ClassificationTarget& target = {}) {
    return read_classification(folder_.add(file, contents), options, target);
  }
  std::string classification_error(const std::string& file, const std::string& contents,
                                   const ClassificationTarget& target = {}) {
    return error_of([&] { classification(file, contents, {}, target); });
  }
  QuestionData questions(const std::string& file, const std::string& contents,
                         const DataOptions& options = {}) {
    return read_questions(folder_.add(file, contents), options);
  }
};

std::vector<std::int32_t> labels_of(const ClassificationData& data) {
  std::vector<std::int32_t> labels;
  for (const ClassificationExample& example : data.examples) labels.push_back(example.label);
  return labels;
}

Strings texts_of(const ClassificationData& data) {
  Strings texts;
  for (const ClassificationExample& example : data.examples) texts.push_back(example.text);
  return texts;
}

TEST_F(DataTest, DelimitedFieldsHoldSeparatorsBreaksAndQuotes) {
  const auto path = folder_.add("a.csv",
                                "\xef\xbb\xbf"
                                "a,\"b,\"\"c\"\"\r\nd\",\r\n\r\n,x\"y,z");
  text::DelimitedReader reader(TextLines(path), {});
  Strings fields;
  ASSERT_TRUE(reader.next(fields));
  EXPECT_EQ(fields, (Strings{"a", "b,\"c\"\r\nd", ""}));
  EXPECT_EQ(reader.line(), 1);
  ASSERT_TRUE(reader.next(fields));
  EXPECT_EQ(fields, (Strings{"", "x\"y", "z"}));
  EXPECT_EQ(reader.line(), 4);
  EXPECT_FALSE(reader.next(fields));
}

TEST_F(DataTest, DelimitedQuotesThatAreNone) {
  const auto path = folder_.add("a.csv", "a\n\"open");
  text::DelimitedReader quoting(TextLines(path), {});
  Strings fields;
  ASSERT_TRUE(quoting.next(fields));
  expect_error(error_of([&] { quoting.next(fields); }), {"a.csv:2:", "closing quote", "{quotes}"});
  text::DelimitedReader plain(TextLines(path), {.separator = ',', .quotes = false});
  plain.next(fields);
  ASSERT_TRUE(plain.next(fields));
  EXPECT_EQ(fields, (Strings{"\"open"}));
  const auto broken = folder_.add("b.csv", "\"a\"b,c\n");
  text::DelimitedReader behind(TextLines(broken), {});
  expect_error(error_of([&] { behind.next(fields); }), {"b.csv:1:", "separator"});
}

TEST_F(DataTest, ClassificationFormatsSayTheSame) {
  const Strings texts = {"good film", "dull, \"long\""};
  for (const auto& [file, contents] : std::map<std::string, std::string>{
           {"a.jsonl",
            "{\"text\":\"good film\",\"label\":\"pos\"}\n\n"
            "{\"text\":\"dull, \\\"long\\\"\",\"label\":\"neg\"}\n"},
           {"a.json",
            "[{\"text\":\"good film\",\"label\":\"pos\"},\n"
            "{\"text\":\"dull, \\\"long\\\"\",\"labels\":\"neg\"}]"},
           {"data",
            "{\"data\": [{\"text\":\"good film\",\"label\":\"pos\"},"
            "{\"text\":\"dull, \\\"long\\\"\",\"label\":\"neg\"}]}"},
           {"a.csv", "label,text\npos,good film\nneg,\"dull, \"\"long\"\"\"\n"},
           {"a.tsv", "text\tlabel\ngood film\tpos\n\"dull, \"\"long\"\"\"\tneg\n"},
           {"a.txt", "__label__pos good film\n__label__neg  dull, \"long\"\n"}}) {
    SCOPED_TRACE(file);
    const auto data = classification(file, contents);
    EXPECT_EQ(data.problem, ProblemType::single_label);
    EXPECT_EQ(data.labels.names(), (Strings{"neg", "pos"}));
    EXPECT_EQ(labels_of(data), (std::vector<std::int32_t>{1, 0}));
    EXPECT_EQ(texts_of(data), texts);
    EXPECT_EQ(data.report.examples, 2);
  }
}

TEST_F(DataTest, ProblemsFollowFromTheLabels) {
  const auto many = classification(
      "many.jsonl", "{\"text\":\"a\",\"label\":[\"x\",\"y\"]}\n{\"text\":\"b\",\"label\":[]}\n");
  EXPECT_EQ(many.problem, ProblemType::multi_label);
  EXPECT_EQ(many.examples[0].values, (std::vector<float>{1, 1}));
  EXPECT_EQ(many.examples[1].values, (std::vector<float>{0, 0}));
  const auto marks = classification("a.ft", "__label__x __label__y a\n__label__y b\n");
  EXPECT_EQ(marks.problem, ProblemType::multi_label);
  EXPECT_EQ(marks.examples[1].values, (std::vector<float>{0, 1}));
  const auto numbers =
      classification("n.jsonl", "{\"text\":\"a\",\"label\":2.5}\n{\"text\":\"b\",\"label\":-1}\n");
  EXPECT_EQ(numbers.problem, ProblemType::regression);
  EXPECT_EQ(numbers.examples[0].values, (std::vector<float>{2.5}));
  const auto whole =
      classification("w.jsonl", "{\"text\":\"a\",\"label\":10}\n{\"text\":\"b\",\"label\":9}\n");
  EXPECT_EQ(whole.problem, ProblemType::single_label);
  EXPECT_EQ(whole.labels.names(), (Strings{"9", "10"}));
  const auto told = classification("t.jsonl", "{\"text\":\"a\",\"label\":3}\n", {},
                                   {ProblemType::regression, LabelSet({"LABEL_0"})});
  EXPECT_EQ(told.examples[0].values, (std::vector<float>{3}));
}

/// A record for each list of labels.
std::string records(const Strings& labels) {
  std::string text;
  for (const std::string& list : labels) text += "{\"text\":\"a\",\"labels\":" + list + "}\n";
  return text;
}

TEST_F(DataTest, RowsOfBitsHaveAPlaceForEachClass) {
  const std::vector<std::vector<float>> expected = {{0, 1, 0}, {1, 0, 1}};
  for (const auto& [file, contents] : std::vector<std::pair<std::string, std::string>>{
           {"a.jsonl", records({"[0,1,0]", "[1,0,1]"})},
           {"b.jsonl", records({"[0.0,1.0,0.0]", "[1.0,0.0,1.0]"})},
           {"c.jsonl", records({"[false,true,false]", "[true,false,true]"})},
           {"d.csv", "text,labels\na,\"[0, 1, 0]\"\na,\"[1, 0, 1]\"\n"},
           {"e.tsv", "text\tlabels\na\t0 1 0\na\t1 0 1\n"}}) {
    SCOPED_TRACE(file);
    const auto data = classification(file, contents);
    EXPECT_EQ(data.problem, ProblemType::multi_label);
    EXPECT_EQ(data.labels.names(), (Strings{"LABEL_0", "LABEL_1", "LABEL_2"}));
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(data.examples.at(i).values, expected[i]);
  }
  const ClassificationTarget known = {ProblemType::multi_label, LabelSet({"x", "y", "z"})};
  const auto one = classification("k.jsonl", records({"[1,0,1]"}), {}, known);
  EXPECT_EQ(one.labels.names(), (Strings{"x", "y", "z"}));
  EXPECT_EQ(one.examples[0].values, expected[1]);
  const auto pair = classification("p.jsonl", records({"[0,1]", "[1,0]", "[0,1]"}));
  EXPECT_EQ(pair.labels.names(), (Strings{"LABEL_0", "LABEL_1"}));
  EXPECT_EQ(pair.examples[2].values, (std::vector<float>{0, 1}));
}

TEST_F(DataTest, ColumnsOfBitsAreClasses) {
  for (const auto& [file, contents] : std::vector<std::pair<std::string, std::string>>{
           {"a.csv", "id,text,toxic,insult\n7,a,0,1\n8,b,0,0\n"},
           {"b.jsonl",
            "{\"id\":7,\"text\":\"a\",\"toxic\":0,\"insult\":1}\n"
            "{\"id\":8,\"text\":\"b\",\"toxic\":false,\"insult\":false}\n"}}) {
    SCOPED_TRACE(file);
    const auto data = classification(file, contents);
    EXPECT_EQ(data.problem, ProblemType::multi_label);
    EXPECT_EQ(data.labels.names(), (Strings{"toxic", "insult"}));
    EXPECT_EQ(data.examples[0].values, (std::vector<float>{0, 1}));
    EXPECT_EQ(data.examples[1].values, (std::vector<float>{0, 0}));
    EXPECT_EQ(data.examples[1].origin.id, "8");
  }
  expect_error(classification_error("c.csv", "text,toxic,year\na,0,1\nb,1,2020\n"),
               {"c.csv:3:", "0 or 1", "\"year\"", "found \"2020\""});
  expect_error(classification_error("d.jsonl",
                                    "{\"text\":\"a\",\"x\":0,\"y\":1}\n{\"text\":\"a\",\"x\":0}\n"),
               {"d.jsonl:2:", "\"y\"", "no such member"});
  expect_error(classification_error("e.csv", "text,toxic\na,0\n"),
               {"0 and 1", "\"text\", \"toxic\""});
}

TEST_F(DataTest, ListsOfNamesStayNames) {
  const auto numbers = classification("a.jsonl", records({"[0]", "[1]", "[0,1]", "[]"}));
  EXPECT_EQ(numbers.labels.names(), (Strings{"0", "1"}));
  EXPECT_EQ(numbers.examples[2].values, (std::vector<float>{1, 1}));
  const auto marks = classification("b.ft", "__label__0 __label__1 a\n__label__0 __label__1 b\n");
  EXPECT_EQ(marks.labels.names(), (Strings{"0", "1"}));
  expect_error(classification_error("c.jsonl", records({"[0,1]", "[0,1]"})),
               {"c.jsonl", "may be either", "\"0 1\""});
  expect_error(classification_error("d.jsonl", records({"[0,1,0]", "[0,1]"})),
               {"of one length", "3 and 2"});
  expect_error(classification_error("e.jsonl", records({"[0,1,0]"}),
                                    {ProblemType::multi_label, LabelSet({"x", "y"})}),
               {"rows of 2 labels", "rows of 3", "{new_head}"});
}

TEST_F(DataTest, LabelsOfTheModelByNameOrNumber) {
  const ClassificationTarget target = {std::nullopt, LabelSet({"bad", "fair", "good"})};
  const auto data = classification("a.jsonl",
                                   "{\"text\":\"a\",\"label\":\"good\"}\n{\"text\":\"b\",\"label\":"
                                   "\"fair\"}\n{\"text\":\"c\",\"label\":\"bad\"}\n",
                                   {}, target);
  EXPECT_EQ(labels_of(data), (std::vector<std::int32_t>{2, 1, 0}));
  expect_error(
      classification_error("b.csv", "text,label\na,good\n\nb,great\n", target),
      {"b.csv:4:", "\"bad\", \"fair\", \"good\"", "found \"great\"", "{new_head} {skip_invalid}"});
  expect_error(classification_error("c.jsonl", "{\"text\":\"a\",\"label\":3}\n", target),
               {"c.jsonl:1:", "found \"3\""});
}

TEST_F(DataTest, PairsAndNamesOfFields) {
  const auto pairs = classification("p.jsonl",
                                    "{\"id\":7,\"text\":\"a\",\"text_pair\":\"b\",\"label\":0}\n"
                                    "{\"text\":\"a\",\"text_pair\":null,\"label\":0}\n");
  EXPECT_EQ(pairs.examples[0].pair, "b");
  EXPECT_FALSE(pairs.examples[1].pair.has_value());
  EXPECT_EQ(pairs.examples[0].origin.id, "7");
  EXPECT_EQ(pairs.examples[1].origin.line, 2);
  DataOptions options;
  options.text_field = "review";
  options.label_field = "stars";
  options.columns = {"stars", "id", "review"};
  const auto table = classification("t.tsv", "5\tx\tfine\n1\ty\t\n", options);
  EXPECT_EQ(texts_of(table), (Strings{"fine", ""}));
  EXPECT_EQ(table.examples[1].origin.id, "y");
  EXPECT_EQ(table.report.empty, 1);
}

TEST_F(DataTest, BrokenLinesOfClassification) {
  const std::string good = "{\"text\":\"a\",\"label\":\"x\"}\n";
  for (const auto& [line, words] : std::map<std::string, Strings>{
           {"{\"text\":\"a\"", {"expected JSON"}},
           {"[1]", {"expected a JSON object", "found [1]"}},
           {"{\"text\":1,\"label\":\"x\"}",
            {"expected a string in the member \"text\"", "found 1"}},
           {"{\"label\":\"x\"}", {"\"text\"", "no such member"}},
           {"{\"text\":\"a\"}", {"expected a label", "\"label\""}},
           {"{\"text\":\"a\",\"label\":null}", {"expected a label"}},
           {"{\"text\":\"a\",\"label\":{}}", {"expected a label as a string or number"}}}) {
    SCOPED_TRACE(line);
    Strings parts = words;
    parts.insert(parts.end(), {"bad.jsonl:2:", "{skip_invalid}"});
    expect_error(classification_error("bad.jsonl", good + line + "\n" + good), parts);
    DataOptions options;
    options.skip_invalid = true;
    const auto kept = classification("bad.jsonl", good + line + "\n" + good, options);
    EXPECT_EQ(kept.examples.size(), 2u);
    EXPECT_EQ(kept.report.skipped, 1);
    expect_error(kept.report.first_skipped(), {"bad.jsonl:2:"});
  }
  expect_error(classification_error("a.csv", "text,label\na\n"),
               {"a.csv:2:", "2 fields", "found 1"});
  expect_error(classification_error("a.csv", "a,b\n"), {"header", "\"text\"", "{columns}"});
  expect_error(classification_error("a.csv", ""), {"a.csv: expected a header"});
  expect_error(classification_error("a.txt", "__label__x a\nb\n"), {"a.txt:2:", "__label__NAME"});
  expect_error(classification_error("a.txt", "plain\n"),
               {"a.txt: expected a known format", "{format}"});
  expect_error(classification_error("a.jsonl", "\n"), {"at least one example"});
  expect_error(classification_error("r.jsonl", "{\"text\":\"\",\"label\":\"x\"}\n",
                                    {ProblemType::regression, LabelSet({"LABEL_0"})}),
               {"r.jsonl:1:", "number", "\"x\""});
  expect_error(classification_error("l.jsonl", "{\"text\":\"\",\"label\":[0,1]}\n",
                                    {ProblemType::single_label, LabelSet({"a", "b"})}),
               {"l.jsonl:1:", "expected one label, found 2"});
  expect_error(error_of([] { read_classification("/nowhere", {}, {}); }), {"/nowhere"});
}

TEST_F(DataTest, FoldersOfClasses) {
  folder_.add("aclImdb/train/pos/1_10.txt", "A fine film.");
  folder_.add("aclImdb/train/neg/0_2.txt", "");
  folder_.add("aclImdb/train/unsup/5_0.txt", "unknown");
  folder_.add("aclImdb/train/labeledBow.feat", "0:1");
  const auto data = read_classification(folder_.name() + "/aclImdb/train", {}, {});
  EXPECT_EQ(data.labels.names(), (Strings{"neg", "pos"}));
  EXPECT_EQ(texts_of(data), (Strings{"", "A fine film."}));
  EXPECT_EQ(data.examples[1].origin.id, "pos/1_10");
  EXPECT_EQ(data.report.empty, 1);
  expect_error(error_of([&] { read_classification(folder_.name() + "/aclImdb", {}, {}); }),
               {"found train"});
}

TEST_F(DataTest, Hyperpartisan) {
  const std::string articles =
      "<?xml version=\"1.0\"?><articles>\n<article id=\"01\" title=\"A &amp; B\">\n<p>One  <a "
      "href=\"x\">two</a> three.</p><p>Four &lt; 5\tsix</p> tail\n</article>"
      "<article id=\"02\" title=\"\"/></articles>";
  const auto path = folder_.add("articles-x.xml", articles);
  folder_.add("ground-truth-x.xml",
              "<articles><article hyperpartisan=\"true\" id=\"01\"/>"
              "<article hyperpartisan=\"false\" id=\"02\"/></articles>");
  for (const std::string& name : {path, folder_.name()}) {
    const auto data = read_classification(name, {}, {});
    EXPECT_EQ(data.labels.names(), (Strings{"false", "true"}));
    EXPECT_EQ(labels_of(data), (std::vector<std::int32_t>{1, 0}));
    EXPECT_EQ(texts_of(data), (Strings{"A & B\nOne two three.\nFour < 5 six\ntail", ""}));
    EXPECT_EQ(data.report.empty, 1);
  }
  folder_.add("ground-truth-x.xml",
              "<articles><article hyperpartisan=\"true\" id=\"01\"/></articles>");
  expect_error(error_of([&] { read_classification(path, {}, {}); }),
               {"article 02", "found nothing"});
  folder_.add("articles-x.xml", "<articles>\n<article>\n</articles>");
  expect_error(error_of([&] { read_classification(path, {}, {}); }),
               {"articles-x.xml:3: expected XML"});
}

TEST_F(DataTest, TaggingFormatsSayTheSame) {
  for (const auto& [file, contents] : std::map<std::string, std::string>{
           {"a.jsonl",
            "{\"tokens\":[\"Ada\",\"Lovelace\"],\"ner_tags\":[\"B-PER\",\"I-PER\"]}\n"
            "{\"tokens\":[\"It\"],\"labels\":[\"O\"]}\n"},
           {"a.json",
            "[{\"tokens\":[\"Ada\",\"Lovelace\"],\"tags\":[\"B-PER\",\"I-PER\"]},"
            "{\"tokens\":[\"It\"],\"labels\":[\"O\"]}]"},
           {"a.conll", "-DOCSTART- -X- O\n\nAda NNP B-PER\nLovelace\tNNP  I-PER \r\n\n\nIt PRP O"},
           {"b", "Ada B-PER\nLovelace I-PER\n\nIt O\n"}}) {
    SCOPED_TRACE(file);
    const auto data = read_tagging(folder_.add(file, contents), {}, {});
    EXPECT_EQ(data.labels.names(), (Strings{"B-PER", "I-PER", "O"}));
    ASSERT_EQ(data.examples.size(), 2u);
    EXPECT_EQ(data.examples[0].words, (Strings{"Ada", "Lovelace"}));
    EXPECT_EQ(data.examples[0].labels, (std::vector<std::int32_t>{0, 1}));
    EXPECT_EQ(data.examples[1].labels, (std::vector<std::int32_t>{2}));
  }
  const LabelSet model({"O", "B-PER"});
  const auto path = folder_.add(
      "n.jsonl",
      "{\"tokens\":[\"a\",\"b\"],\"ner_tags\":[1,0]}\n{\"tokens\":[],\"ner_tags\":[]}\n");
  const auto numbers = read_tagging(path, {}, {.labels = model});
  EXPECT_EQ(numbers.examples[0].labels, (std::vector<std::int32_t>{1, 0}));
  EXPECT_EQ(numbers.report.empty, 1);
}

TEST_F(DataTest, BrokenLinesOfTagging) {
  const auto error = [this](const std::string& file, const std::string& contents) {
    const std::string path = folder_.add(file, contents);
    return error_of([&] { read_tagging(path, {}, {.labels = LabelSet({"O", "X"})}); });
  };
  expect_error(error("a.conll", "a O\n\nb O\nc\n"),
               {"a.conll:4:", "expected 2 columns", "found 1", "\"c\""});
  expect_error(error("a.conll", "a O\n\nb Q\n"), {"a.conll:3:", "\"O\", \"X\"", "\"Q\""});
  expect_error(error("a.jsonl", "{\"tokens\":[\"a\"],\"tags\":[]}\n"),
               {"a.jsonl:1:", "1 tokens", "found 0"});
  expect_error(error("a.jsonl", "{\"tokens\":[\"a\"]}\n"), {"\"ner_tags\""});
  expect_error(error("a.jsonl", "{\"tokens\":[1],\"tags\":[0]}\n"),
               {"strings in the member \"tokens\""});
  DataOptions options;
  options.skip_invalid = true;
  const auto kept = read_tagging(folder_.add("b.conll", "a O\nb\nc O\n\nd X\n"), options, {});
  EXPECT_EQ(kept.report.skipped, 1);
  ASSERT_EQ(kept.examples.size(), 1u);
  EXPECT_EQ(kept.examples[0].words, (Strings{"d"}));
}

TEST_F(DataTest, QuestionsOfSquadAndFlatOnes) {
  const std::string squad =
      "{\"version\":\"2.0\",\"data\":[{\"title\":\"t\",\"paragraphs\":[{\"context\":\"Zoë ran "
      "home.\","
      "\"qas\":[{\"id\":5,\"question\":\"Who?\",\"answers\":[{\"text\":\"Zoë\",\"answer_start\":0},"
      "{\"text\":\"home\",\"answer_start\":8}]},{\"id\":\"b\",\"question\":\"Why?\","
      "\"is_impossible\":true,\"plausible_answers\":[],\"answers\":[]}]}]}]}";
  const std::string flat =
      "{\"id\":\"5\",\"context\":\"Zoë ran "
      "home.\",\"question\":\"Who?\",\"answers\":{\"text\":[\"Zoë\","
      "\"home\"],\"answer_start\":[0,8]}}\n{\"id\":\"b\",\"context\":\"Zoë ran "
      "home.\",\"question\":"
      "\"Why?\",\"answers\":{\"text\":[],\"answer_start\":[]}}\n";
  for (const auto& data : {questions("s.json", squad), questions("f.jsonl", flat)}) {
    ASSERT_EQ(data.examples.size(), 2u);
    EXPECT_EQ(data.examples[0].origin.id, "5");
    ASSERT_EQ(data.examples[0].answers.size(), 2u);
    EXPECT_EQ(data.examples[0].answers[1].span, (CharacterSpan{8, 12}));
    EXPECT_EQ(data.examples[0].context, data.examples[1].context) << "shared";
    EXPECT_EQ(data.unanswerable, 1);
  }
}

TEST_F(DataTest, AnswersWithoutAPlaceCountEverywhere) {
  const auto data = questions(
      "a.jsonl", "{\"context\":\"né a, né b\",\"question\":\"?\",\"answers\":{\"text\":\"né\"}}\n");
  ASSERT_EQ(data.examples[0].answers.size(), 2u);
  EXPECT_EQ(data.examples[0].answers[1].span, (CharacterSpan{6, 8}));
}

TEST_F(DataTest, AnswersThatAreNotWhereTheyShouldBe) {
  const auto line = [](const std::string& text, const std::string& start) {
    return "{\"id\":\"q7\",\"context\":\"Zoë ran.\",\"question\":\"?\",\"answers\":{\"text\":\"" +
           text + "\",\"answer_start\":" + start + "}}\n";
  };
  const std::string good = line("ran", "4");
  for (const auto& [bad, word] :
       std::map<std::string, std::string>{{line("ran", "5"), "found \"an.\""},
                                          {line("ran", "40"), "the end of the context"},
                                          {line("ran", "-1"), "the end of the context"},
                                          {line("", "0"), "an answer with text"},
                                          {line("ran", "\"4\""), "a character as answer_start"},
                                          {line("gone", "null"), "found it nowhere"}}) {
    SCOPED_TRACE(bad);
    const std::string lines = good + bad;
    const auto error = error_of([&] { questions("a.jsonl", lines); });
    expect_error(error, {"a.jsonl:2:", "question \"q7\"", word, "{skip_invalid}"});
    const auto kept = questions("a.jsonl", lines + good, {.skip_invalid = true});
    EXPECT_EQ(kept.examples.size(), 2u);
    EXPECT_EQ(kept.report.skipped, 1);
  }
  expect_error(error_of([&] { questions("a.jsonl", "{\"context\":\"\",\"question\":\"?\"}\n"); }),
               {"expected answers"});
  expect_error(error_of([&] { questions("s.json", "{\"data\":[{\"paragraphs\":[{}]}]}"); }),
               {"s.json: article 1:", "\"context\""});
}

TEST_F(DataTest, ChoicesOfThreeForms) {
  const auto path = folder_.add(
      "a.jsonl",
      "{\"id\":1,\"context\":\"c\",\"question\":\"q\",\"choices\":[\"x\",\"y\"],\"label\":1}\n"
      "{\"sent1\":\"c\",\"sent2\":\"q\",\"ending0\":\"x\",\"ending1\":\"y\",\"label\":0}\n"
      "{\"question\":\"q\",\"choices\":[\"x\",\"y\"],\"answer\":1}\n");
  const auto data = read_choices(path, {});
  ASSERT_EQ(data.examples.size(), 3u);
  for (const ChoiceExample& example : data.examples) {
    EXPECT_EQ(example.question.choices, (Strings{"x", "y"}));
    EXPECT_EQ(example.question.question, "q");
  }
  EXPECT_EQ(data.examples[1].question.context, "c");
  EXPECT_EQ(data.examples[0].label, 1);
  EXPECT_EQ(data.examples[1].label, 0);
  EXPECT_EQ(data.examples[2].label, 1);
  const auto wikihop = read_choices(
      folder_.add("w.json",
                  "[{\"id\":\"WH_0\",\"query\":\"country paris\",\"candidates\":[\"france\","
                  "\"italy\"],\"supports\":[\"Paris.\",\"Rome.\"],\"answer\":\"italy\"}]"),
      {});
  EXPECT_EQ(wikihop.examples[0].question.context, "Paris.\nRome.");
  EXPECT_EQ(wikihop.examples[0].question.question, "country paris");
  EXPECT_EQ(wikihop.examples[0].label, 1);
  const auto error = [this](const std::string& line) {
    const std::string bad = folder_.add("b.jsonl", line);
    return error_of([&] { read_choices(bad, {}); });
  };
  expect_error(error("{\"question\":\"q\",\"choices\":[\"x\"],\"label\":1}"),
               {"b.jsonl:1:", "one of 1 choices"});
  expect_error(error("{\"question\":\"q\",\"choices\":[\"x\"],\"label\":\"z\"}"), {"\"z\""});
  expect_error(error("{\"question\":\"q\",\"choices\":[],\"label\":0}"), {"at least one choice"});
  expect_error(error("{\"choices\":[\"x\"],\"label\":0}"), {"a context or a question"});
}

TEST(PublishedData, IsReadWhole) {
  const std::string data = data_folder().string();
  if (data.empty()) GTEST_SKIP() << "no data sets";
  const auto news = read_classification(data + "/hyperpartisan", {}, {});
  EXPECT_EQ(news.examples.size(), 645u);
  EXPECT_EQ(std::count_if(news.examples.begin(), news.examples.end(),
                          [](const auto& one) { return one.label == 1; }),
            238);
  EXPECT_TRUE(
      news.examples[0].text.starts_with("Kucinich: Reclaiming the money power\nFrom flickr"));
  const auto squad = read_questions(data + "/squad/dev-v1.1.json", {});
  EXPECT_EQ(squad.examples.size(), 10570u);
  const auto papers = read_questions(data + "/covidqa/200423_covidQA.realigned.json", {});
  EXPECT_EQ(papers.examples.size(), 1380u);
  const auto gap = read_classification(
      data + "/gap/gap-development.tsv",
      {.text_field = "Text", .pair_field = "Pronoun", .label_field = "A-coref", .quotes = false},
      {});
  EXPECT_EQ(gap.examples.size(), 2000u);
  EXPECT_EQ(gap.labels.names(), (Strings{"FALSE", "TRUE"}));
}

}  // namespace
}  // namespace longformer::tasks::data_test
