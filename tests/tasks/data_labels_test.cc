// One reading of the labels of a file, whatever wrote it, and words in columns of many kinds.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "error_testing.h"
#include "tasks/choice/choice_data.h"
#include "tasks/classification/classification_data.h"
#include "tasks/tagging/tagging_data.h"
#include "temporary_folder.h"

namespace longformer::tasks::data_labels_test {
namespace {

using Strings = std::vector<std::string>;
using Numbers = std::vector<std::int32_t>;

const Strings kStars = {"1", "2", "3", "4", "5"};

std::string csv_of(const Strings& labels) {
  std::string text = "text;label\n";
  for (const std::string& label : labels) text += "a;" + label + "\n";
  return text;
}

class LabelsTest : public testing::Test {
 protected:
  TemporaryFolder folder_;

  /// A table with ";" between its columns.
  ClassificationData table(const Strings& labels, const ClassificationTarget& target = {},
                           const std::string& problem_type = {}) {
    DataOptions options;
    options.delimiter = ";";
    options.problem_type = problem_type;
    return read_classification(folder_.add("d.csv", csv_of(labels)), options, target);
  }
  std::string table_error(const Strings& labels, const ClassificationTarget& target = {},
                          const std::string& problem_type = {}) {
    return error_of([&] { table(labels, target, problem_type); });
  }
  TaggingData columns(const std::string& text, const KnownLabels& known = {},
                      const DataOptions& options = {}) {
    return read_tagging(folder_.add("d.conll", text), options, known);
  }
  std::string columns_error(const std::string& text) {
    return error_of([&] { columns(text); });
  }
};

Numbers classes_of(const ClassificationData& data) {
  Numbers labels;
  for (const ClassificationExample& example : data.examples) labels.push_back(example.label);
  return labels;
}

std::vector<float> values_of(const ClassificationData& data) {
  std::vector<float> values;
  for (const ClassificationExample& example : data.examples) values.push_back(example.values.at(0));
  return values;
}

ClassificationTarget model(const Strings& names) { return {.labels = LabelSet(names)}; }

TEST_F(LabelsTest, AreAllNamesOrAllNumbers) {
  const auto numbers = table({"0", "1", "2", "3", "4"}, model(kStars));
  EXPECT_EQ(classes_of(numbers), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(numbers.kind, LabelKind::numbers);
  EXPECT_EQ(numbers.report.notes,
            (Strings{"labels are the numbers of the classes: \"0\" is \"1\""}));
  const auto names = table({"1", "2", "3", "4", "5"}, model(kStars));
  EXPECT_EQ(classes_of(names), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(names.kind, LabelKind::names);
  EXPECT_TRUE(names.report.notes.empty());
  const auto either = table({"1", "4"}, model(kStars));
  EXPECT_EQ(classes_of(either), (Numbers{0, 3}));
  ASSERT_EQ(either.report.notes.size(), 1u);
  const auto same = table({"0", "1"}, model({"0", "1"}));
  EXPECT_FALSE(same.kind.has_value());
  EXPECT_TRUE(same.report.notes.empty());
  expect_error(table_error({"1", "0", "5"}, model(kStars)),
               {"d.csv:3: expected labels that are all names", "\"0\", which is no name",
                "d.csv:4 \"5\", which is no number", "{new_head}"});
  expect_error(table_error({"pos", "1"}, model({"neg", "pos"})), {"d.csv:3:", "d.csv:2 \"pos\""});
  expect_error(table_error({"pos", "great"}, model({"neg", "pos"})),
               {"d.csv:3: expected a label of \"neg\", \"pos\", found \"great\""});
}

TEST_F(LabelsTest, OfValidationDataAreReadAsThoseOfTheTrainingData) {
  auto names = model(kStars), numbers = model(kStars);
  names.kind = LabelKind::names;
  numbers.kind = LabelKind::numbers;
  expect_error(table_error({"0", "1"}, names), {"d.csv:2: expected a label of \"1\""});
  EXPECT_EQ(classes_of(table({"1", "4"}, numbers)), (Numbers{1, 4}));
  expect_error(table_error({"1", "5"}, numbers), {"d.csv:3:", "from 0 to 4, found \"5\""});
  EXPECT_EQ(table({"b", "a"}).kind, LabelKind::names);
}

TEST_F(LabelsTest, OfListsAreReadInOneWay) {
  const auto read = [this](const std::string& lines) {
    return read_classification(folder_.add("m.jsonl", lines), {},
                               {ProblemType::multi_label, LabelSet(kStars)});
  };
  const std::string zero = "{\"text\":\"a\",\"label\":[0,2]}\n";
  EXPECT_EQ(read(zero).examples[0].values, (std::vector<float>{1, 0, 1, 0, 0}));
  const std::string five = "{\"text\":\"a\",\"label\":[5]}\n";
  EXPECT_EQ(read(five).examples[0].values, (std::vector<float>{0, 0, 0, 0, 1}));
  expect_error(error_of([&] { read(zero + five); }), {"m.jsonl:1:", "m.jsonl:2", "\"5\""});
}

TEST_F(LabelsTest, ThatPandasWroteAsNumbersAreClasses) {
  const auto data = table({"1.0", "0.0", "1.0"});
  EXPECT_EQ(data.problem, ProblemType::single_label);
  EXPECT_EQ(data.labels.names(), (Strings{"0", "1"}));
  EXPECT_EQ(classes_of(data), (Numbers{1, 0, 1}));
  ASSERT_EQ(data.report.notes.size(), 1u);
  expect_error(data.report.notes[0], {"single_label_classification", "2 whole numbers"});
  EXPECT_EQ(classes_of(table({"1.0", "0.0"}, model({"neg", "pos"}))), (Numbers{1, 0}));
  EXPECT_EQ(classes_of(table({"1", "0"}, model({"0.0", "1.0"}))), (Numbers{1, 0}));
  Strings many;
  for (int i = 0; i < 30; ++i) many.push_back(fmt::format("{}.0", i));
  EXPECT_EQ(table(many).problem, ProblemType::regression);
  EXPECT_EQ(table({"1.0", "0.5"}).problem, ProblemType::regression);
}

TEST_F(LabelsTest, ThatStandForNoneAreNone) {
  for (const char* none : {"", "NaN", "nan", "NA", "N/A", "null", "NULL", "None", "<NA>", "#N/A"}) {
    expect_error(table_error({"a", none, "b"}), {"d.csv:3: expected a label", "{skip_invalid}"});
  }
  // A class of the model may be called so.
  EXPECT_EQ(classes_of(table({"None", "x"}, model({"x", "None"}))), (Numbers{1, 0}));
  const auto json = [this](const std::string& label) {
    return error_of([&] {
      read_classification(folder_.add("d.jsonl", "{\"text\":\"a\",\"label\":" + label + "}\n"), {},
                          {});
    });
  };
  for (const char* none : {"null", "NaN", "\"\"", "\"nan\"", "[null]", "[NaN]", "[\"\"]"}) {
    expect_error(json(none), {"d.jsonl:1: expected a label"});
  }
  EXPECT_EQ(json("\"None\""), "");
}

TEST_F(LabelsTest, WithADecimalCommaAreTold) {
  expect_error(table_error({"0,5", "1,0"}),
               {"d.csv:2:", "\"0,5\"", "decimal point", "problem type"});
  expect_error(table_error({"0,1", "1,0"}), {"d.csv:2:", "\"0,1\""});
  for (const auto& data : {table({"0,5", "-1,25", "3"}, {}, "regression"),
                           table({"0,5", "-1,25", "3"}, {.problem = ProblemType::regression,
                                                        .labels = LabelSet({"LABEL_0"})})}) {
    EXPECT_EQ(values_of(data), (std::vector<float>{0.5f, -1.25f, 3}));
    EXPECT_EQ(data.report.notes.size(), 1u);
  }
  EXPECT_EQ(table({"0,1", "1,0"}, {}, "single_label_classification").labels.names(),
            (Strings{"0,1", "1,0"}));
  const auto rows = table({"0,1,0", "1,0,0"});
  EXPECT_EQ(rows.problem, ProblemType::multi_label);
  EXPECT_EQ(rows.labels.size(), 3u);
}

TEST_F(LabelsTest, MakeTheProblemThatIsAskedFor) {
  const auto data = table({"1", "2"}, {}, "regression");
  EXPECT_EQ(data.problem, ProblemType::regression);
  EXPECT_EQ(values_of(data), (std::vector<float>{1, 2}));
  EXPECT_EQ(table({"0.5", "1.5"}, {}, "single_label_classification").labels.size(), 2u);
  EXPECT_EQ(table({"a", "b"}, {}, "multi_label_classification").problem, ProblemType::multi_label);
  expect_error(table_error({"1"}, {ProblemType::single_label, LabelSet(kStars)}, "regression"),
               {"problem type", "single_label_classification", "{new_head}"});
  expect_error(table_error({"1"}, {}, "ranking"), {"problem type: expected", "\"ranking\""});
  const auto soft = folder_.add("s.jsonl", "{\"text\":\"a\",\"label\":[0.2,0.8]}\n");
  expect_error(error_of([&] { read_classification(soft, {}, {}); }), {"s.jsonl:1:", "0.2"});
  DataOptions options;
  options.problem_type = "regression";
  EXPECT_EQ(read_classification(soft, options, {}).labels.size(), 2u);
}

TEST_F(LabelsTest, OfChoicesAreAllTextsOrAllNumbers) {
  const auto read = [this](const Strings& labels) {
    std::string lines;
    for (const std::string& label : labels) {
      lines += R"({"question":"q","choices":["1","2","0"],"label":)" + label + "}\n";
    }
    return read_choices(folder_.add("c.jsonl", lines), {});
  };
  EXPECT_EQ(read({"1", "2"}).examples[0].label, 1);
  EXPECT_EQ(read({"\"1\"", "\"0\""}).examples[1].label, 2);
  expect_error(error_of([&] {
                 read({"1", "\"1\""});
               }),
               {"c.jsonl:2: expected the number of a choice", "as in", "c.jsonl:1"});
  const auto twice = folder_.add("t.jsonl", R"({"question":"q","choices":["a","a"],"label":"a"})");
  expect_error(error_of([&] { read_choices(twice, {}); }), {"t.jsonl:1:", "several"});
}

TEST_F(LabelsTest, OfWordsAreAllNamesOrAllNumbers) {
  const KnownLabels known = {.labels = LabelSet({"1", "2", "O"})};
  EXPECT_EQ(columns("a 0\nb 2\n", known).examples[0].labels, (Numbers{0, 2}));
  EXPECT_EQ(columns("a 1\nb O\n", known).examples[0].labels, (Numbers{0, 2}));
  expect_error(error_of([&] { columns("a 0\n\nb O\n", known); }),
               {"d.conll:1:", "d.conll:3 \"O\""});
}

/// Names whose letters may be one character or a letter with its marks: é, ô, 각, ḍ̇.
struct Forms {
  std::string composed, decomposed;
};
const std::vector<Forms> kForms = {
    {"caf\u00e9", "cafe\u0301"},
    {"\u00f4", "o\u0302"},
    {"\uac01", "\u1100\u1161\u11a8"},
    {"\u1e0d\u0307", "d\u0307\u0323"},
};

TEST_F(LabelsTest, ComposedAndDecomposedNamesAreOneClass) {
  for (const auto& [composed, decomposed] : kForms) {
    SCOPED_TRACE(composed);
    const std::vector<Strings> orders = {{composed, decomposed}, {decomposed, composed}};
    for (const Strings& forms : orders) {
      // The spelling that came first is the name.
      const auto learned = table({forms[0], "b", forms[1], "b", forms[0]});
      EXPECT_EQ(std::ranges::count(learned.labels.names(), forms[0]), 1);
      ASSERT_EQ(learned.labels.size(), 2u);
      EXPECT_EQ(classes_of(learned)[0], classes_of(learned)[2]);
      EXPECT_NE(classes_of(learned)[0], classes_of(learned)[1]);
      EXPECT_EQ(classes_of(table({forms[1], "b"}, model({"b", forms[0]}))), (Numbers{1, 0}));

      const std::string line = R"({"text": "a", "label": ")";
      const auto lists = read_classification(
          folder_.add("d.jsonl", "{\"text\": \"a\", \"label\": [\"" + forms[0] + "\", \"b\"]}\n" +
                                     line + forms[1] + "\"}\n"),
          {}, {.problem = ProblemType::multi_label});
      EXPECT_EQ(lists.labels.size(), 2u);
      const auto marked = read_classification(
          folder_.add("f.txt", "__label__" + forms[0] + " a\n__label__" + forms[1] + " b\n"), {},
          {});
      EXPECT_EQ(marked.labels.names(), Strings{forms[0]});

      // Members of an object, and columns, are classes too.
      const auto members =
          read_classification(folder_.add("m.jsonl", "{\"text\": \"a\", \"" + forms[0] +
                                                         "\": 1, \"b\": 0}\n{\"text\": \"a\", \"" +
                                                         forms[1] + "\": 1, \"b\": 1}\n"),
                              {}, {});
      EXPECT_EQ(members.labels.names(), (Strings{forms[0], "b"}));
      EXPECT_EQ(members.examples.at(1).values, (std::vector<float>{1, 1}));
      const auto known = read_classification(
          folder_.add("c.csv", "text," + forms[0] + ",b\na,1,0\n"), {}, model({"b", forms[1]}));
      EXPECT_EQ(known.examples.at(0).values, (std::vector<float>{0, 1}));

      const auto words =
          columns("a B-" + forms[0] + "\nb I-" + forms[1] + "\nc O\nd B-" + forms[1] + "\n");
      EXPECT_EQ(words.labels.names(), (Strings{"B-" + forms[0], "I-" + forms[0], "O"}));
      EXPECT_EQ(words.examples.at(0).labels, (Numbers{0, 1, 2, 0}));
      const auto asked =
          read_choices(folder_.add("q.jsonl", R"({"question": "q", "choices": ["b", ")" + forms[0] +
                                                  R"("], "label": ")" + forms[1] + "\"}\n"),
                       {});
      EXPECT_EQ(asked.examples.at(0).label, 1);
    }
    TemporaryFolder folders;
    for (const std::string& name : {composed, decomposed, std::string("b")}) {
      std::filesystem::create_directory(folders.path() / name);
      folders.add(name + "/a.txt", "text");
    }
    const auto classes = read_classification(folders.path().string(), {}, {});
    EXPECT_EQ(classes.labels.size(), 2u);
    EXPECT_EQ(classes.examples.size(), 3u);
  }
  // Letters that look alike, and compatible ones, stay apart.
  EXPECT_EQ(table({"\u0041", "\u0410", "\u00aa", "a", "\ufb01", "fi"}).labels.size(), 6u);
  // A model that has both keeps both.
  const auto& [composed, decomposed] = kForms[0];
  EXPECT_EQ(classes_of(table({composed, decomposed}, model({decomposed, composed}))),
            (Numbers{1, 0}));
  EXPECT_EQ(place_of_label(Strings{"a", decomposed}, composed), 1u);
  EXPECT_EQ(place_of_label(Strings{decomposed, composed}, composed), 1u);
  EXPECT_EQ(place_of_label(Strings{"a"}, composed), std::nullopt);
}

TEST_F(LabelsTest, ColumnsOfOneClassAreToldAndAgree) {
  for (const auto& forms : kForms) {
    // clang 14 has no lambdas that use names of a structured binding.
    const std::string composed = forms.composed, decomposed = forms.decomposed;
    SCOPED_TRACE(composed);
    const std::vector<Strings> pairs = {
        {composed, decomposed}, {decomposed, composed}, {composed, composed}};
    for (const Strings& names : pairs) {
      const auto rows = [&](const Strings& bits) {
        std::string text = "text," + names[0] + ",b," + names[1] + "\n";
        for (const std::string& row : bits) text += "a," + row + "\n";
        return folder_.add("twins.csv", text);
      };
      const auto data = read_classification(rows({"1,0,1", "0,1,0"}), {}, {});
      EXPECT_EQ(data.labels.names(), (Strings{names[0], "b"}));
      EXPECT_EQ(data.examples.at(0).values, (std::vector<float>{1, 0}));
      EXPECT_EQ(data.examples.at(1).values, (std::vector<float>{0, 1}));
      ASSERT_EQ(data.report.notes.size(), 1u);
      for (const std::string& part : {names[0], names[1], std::string("twins.csv")}) {
        EXPECT_NE(data.report.notes[0].find(part), std::string::npos) << data.report.notes[0];
      }
      // Nothing says which of two different values counts.
      const std::string broken = rows({"1,0,1", "1,0,0"});
      expect_error(error_of([&] { read_classification(broken, {}, {}); }),
                   {"twins.csv:3: ", names[0], names[1], "found 1 and 0"});
      DataOptions skips;
      skips.skip_invalid = true;
      EXPECT_EQ(read_classification(broken, skips, {}).examples.size(), 1u);
    }
    const auto members = [&](const std::string& first, const std::string& second) {
      return folder_.add("twins.jsonl", "{\"text\": \"a\", \"" + composed + "\": " + first +
                                            ", \"b\": 0, \"" + decomposed + "\": " + second +
                                            "}\n");
    };
    const std::string twice = members("1", "1");
    const auto data = read_classification(twice, {}, {});
    EXPECT_EQ(data.examples.at(0).values, (std::vector<float>{1, 0}));
    ASSERT_EQ(data.report.notes.size(), 1u);
    expect_error(data.report.notes[0], {composed, decomposed, "twins.jsonl"});
    const std::string broken = members("0", "1");
    expect_error(error_of([&] { read_classification(broken, {}, {}); }),
                 {"twins.jsonl:1: ", composed, decomposed, "found 0 and 1"});
    // A model that has both classes tells them apart.
    const auto both = model({composed, "b", decomposed});
    for (const std::string& file :
         {members("0", "1"),
          folder_.add("both.csv", "text," + composed + ",b," + decomposed + "\na,0,0,1\n")}) {
      const auto known = read_classification(file, {}, both);
      EXPECT_EQ(known.examples.at(0).values, (std::vector<float>{0, 0, 1}));
      EXPECT_TRUE(known.report.notes.empty());
    }
    TemporaryFolder folders;
    for (const std::string& name : {composed, decomposed, std::string("b")}) {
      std::filesystem::create_directory(folders.path() / name);
      folders.add(name + "/a.txt", "text");
    }
    const auto classes = read_classification(folders.path().string(), {}, {});
    ASSERT_EQ(classes.report.notes.size(), 1u);
    expect_error(classes.report.notes[0], {composed, decomposed, folders.path().string()});
    EXPECT_TRUE(read_classification(folders.path().string(), {}, both).report.notes.empty());
  }
}

/// Words and labels of all sentences.
using Sentences = std::vector<std::pair<Strings, Strings>>;

Sentences sentences_of(const TaggingData& data) {
  Sentences sentences;
  for (const TaggingExample& example : data.examples) {
    Strings labels;
    for (const std::int32_t label : example.labels) {
      labels.push_back(data.labels.names()[static_cast<std::size_t>(label)]);
    }
    sentences.emplace_back(example.words, labels);
  }
  return sentences;
}

TEST_F(LabelsTest, ColumnsOfEveryKindSayTheSame) {
  const Sentences expected = {{{"Anna", "lives"}, {"B-PER", "O"}}, {{"Paris"}, {"B-LOC"}}};
  const std::map<std::string, std::string> kinds = {
      {"a word and its tag", "Anna B-PER\nlives O\n\nParis B-LOC\n"},
      {"tabs", "Anna\tB-PER\nlives\tO\n\nParis\tB-LOC\n\n\n"},
      {"CoNLL-2003",
       "-DOCSTART- -X- -X- O\n\nAnna NNP B-NP B-PER\nlives VBZ B-VP O\n\n"
       "Paris NNP B-NP B-LOC\n"},
      {"comments of Universal Dependencies",
       "# newdoc = 1\n# text = Anna lives\nAnna B-PER\nlives O\n\n# text = Paris\nParis B-LOC\n"},
      {"comments with as many words as columns",
       "# text = Anna\nAnna N x B-PER\nlives V x O\n\n# text = Paris\nParis N x B-LOC\n"},
      {"comments of MultiCoNER",
       "# id 4f2a-77\tdomain=en\nAnna _ _ B-PER\nlives _ _ O\n\n"
       "# id 4f2a-78\tdomain=en\nParis _ _ B-LOC\n"},
      {"sources",
       "#\thttps://example.org/a [2009-10-17]\nAnna\tB-PER\nlives\tO\n\n"
       "#\thttps://example.org/b [2009-10-18]\nParis\tB-LOC\n"},
      {"documents",
       "#begin document (a); part 000\nAnna B-PER\nlives O\n\nParis B-LOC\n"
       "#end document\n"},
      {"a comment by itself",
       "# global.columns = FORM TAG\n\nAnna B-PER\nlives O\n\n"
       "Paris B-LOC\n"},
      {".iob2",
       "# sent_id = 1\n1\tAnna\tB-PER\t-\tkim\n2\tlives\tO\t-\tkim\n\n"
       "# sent_id = 2\n1\tParis\tB-LOC\t-\tkim\n"},
      {"ranges and empty nodes",
       "1-2\tAnnalives\t_\n1\tAnna\tB-PER\n2\tlives\tO\n2.1\tx\t_\n\n"
       "1\tParis\tB-LOC\n"},
      {"tags before words", "B-PER\tAnna\nO\tlives\n\nB-LOC\tParis\n"}};
  for (const auto& [kind, text] : kinds) {
    SCOPED_TRACE(kind);
    EXPECT_EQ(sentences_of(columns(text)), expected);
    const auto known = columns(text, {.labels = LabelSet({"O", "B-PER", "B-LOC"})});
    EXPECT_EQ(sentences_of(known), expected);
  }
}

TEST_F(LabelsTest, ColumnsAreSaid) {
  const std::string text = "1\tAnna\tB-PER\tO\n2\tlives\tO\tO\n";
  expect_error(columns(text).report.notes.at(0),
               {"4 columns between tabs", "words are column 2", "labels column 4", "column 1"});
  DataOptions options;
  options.label_field = "3";
  EXPECT_EQ(sentences_of(columns(text, {}, options)),
            (Sentences{{{"Anna", "lives"}, {"B-PER", "O"}}}));
  options.text_field = "3";
  expect_error(error_of([&] { columns(text, {}, options); }), {"column 3"});
  options.label_field = "5";
  expect_error(error_of([&] { columns(text, {}, options); }), {"label_field", "from 1 to 4"});
  EXPECT_TRUE(columns("a X\nb Y\n").report.notes.empty());
}

TEST_F(LabelsTest, ColumnsOfConlluHaveTheirPartsOfSpeech) {
  const auto data = columns(
      "# text = New York\n1\tNew York\tNew York\tPROPN\t_\t_\t0\troot\t_\t_\n"
      "2\tis\tbe\tAUX\t_\t_\t1\tcop\t_\tSpaceAfter=No\n");
  EXPECT_EQ(sentences_of(data), (Sentences{{{"New York", "is"}, {"PROPN", "AUX"}}}));
}

TEST_F(LabelsTest, WordsThatLookLikeCommentsAreWords) {
  EXPECT_EQ(
      sentences_of(columns("# O\n#berlin B-LOC\nAnna B-PER\n\nx O\n# O\n")),
      (Sentences{{{"#", "#berlin", "Anna"}, {"O", "B-LOC", "B-PER"}}, {{"x", "#"}, {"O", "O"}}}));
  EXPECT_EQ(sentences_of(columns("2 O\n3 O\n")), (Sentences{{{"2", "3"}, {"O", "O"}}}));
}

TEST_F(LabelsTest, RowsOfAnotherWidthAreBroken) {
  expect_error(columns_error("a N O\nb V O\nc O\n"),
               {"d.conll:3: expected 3 columns", "found 2", "{skip_invalid}"});
  expect_error(columns_error("New York\tB-LOC\nis\tO\nin O\n"), {"d.conll:3:", "between tabs"});
  expect_error(columns_error("a O\n# a comment behind it\nb O\n"), {"d.conll:2:"});
  expect_error(columns_error("a\tO\nb\t\n"), {"d.conll:2:"});
  expect_error(columns_error("one\ntwo\n"), {"d.conll:1: expected a word and its label"});
  std::string words;
  for (int i = 0; i < 60; ++i) words += fmt::format("{}\tword{}\n", i + 1, i);
  expect_error(columns_error(words), {"d.conll:1: expected a word and its label"});
  std::string pairs;
  for (int i = 0; i < 60; ++i) pairs += fmt::format("x word{}\n", i);
  expect_error(columns_error(pairs), {"60 different ones", "column 2", "label_field"});
  expect_error(columns_error("1 a _\n2 b _\n"), {"\"_\" alone"});
}

}  // namespace
}  // namespace longformer::tasks::data_labels_test
