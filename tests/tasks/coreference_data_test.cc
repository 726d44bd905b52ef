// Files of documents with clusters: CoNLL-2012 in the shapes that it is found in, and JSON lines.
#include "tasks/coreference/coreference_data.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "error_testing.h"
#include "temporary_folder.h"

namespace longformer::tasks::coreference_data_test {
namespace {

using Clusters = std::vector<WordCluster>;
using Words = std::vector<std::string>;

class CoreferenceFiles : public testing::Test {
 protected:
  std::string write(const std::string& text, const std::string& name = "a.conll") {
    return folder_.add(name, text);
  }
  CoreferenceData conll(const std::string& text, const DataOptions& options = {}) {
    return read_coreference(write(text), options);
  }
  CoreferenceData json(const std::string& text, const CoreferenceMembers& members = {}) {
    return read_coreference(write(text, "a.jsonl"), {}, members);
  }
  std::string error(const std::string& text, const std::string& name = "a.conll") {
    return error_of([&] { read_coreference(write(text, name), {}); });
  }

 private:
  TemporaryFolder folder_;
};

/// A document of one word per label, in columns parted by `tab`.
std::string document(const std::vector<std::string>& labels, const std::string& tab = "\t",
                     const std::string& name = "x") {
  std::string text = "#begin document (" + name + "); part 000\n";
  for (std::size_t i = 0; i < labels.size(); ++i) {
    text += name + tab + "0" + tab + std::to_string(i) + tab + "w" + std::to_string(i) + tab +
            labels[i] + "\n";
  }
  return text + "\n#end document\n";
}

Clusters of_labels(const std::vector<std::string>& labels) {
  TemporaryFolder folder;
  return read_coreference(folder.add("x.conll", document(labels)), {}).examples.at(0).clusters;
}

TEST_F(CoreferenceFiles, LabelsJoinedByBarsOrByNothing) {
  const Clusters nested = {{{0, 1}, {3, 3}}, {{1, 2}}, {{2, 2}}};
  EXPECT_EQ(of_labels({"(1", "(3|1)", "3)|(2)", "(1)"}), nested);
  EXPECT_EQ(of_labels({"(1", "(3|1)", "3)(2)", "(1)"}), nested);
  const Clusters joined = {{{0, 1}}, {{0, 2}, {3, 3}}, {{3, 4}}};
  EXPECT_EQ(of_labels({"(1(3", "3)", "1)", "(1)(2", "2)"}), joined);
  const Clusters both = {{{0, 1}, {1, 1}}, {{0, 2}}};
  EXPECT_EQ(of_labels({"(12(3", "(3)3)", "12)"}), both);
  EXPECT_EQ(of_labels({"(1(3", "3)1)"}), (Clusters{{{0, 1}}}));
}

TEST_F(CoreferenceFiles, WhatIsNoLabel) {
  EXPECT_EQ(of_labels({"-", "_", "", "(7)"}), (Clusters{{{3, 3}}}));
  // LitBank: empty columns between tabs, the last one too.
  const CoreferenceData data = conll(
      "#begin document (541_age_brat); part 0\n541\t0\t0\tBook\t_\t_\t_\t_\t_\t_\t_\t_\t\n"
      "541\t0\t1\tNilsson\t_\t_\t_\t_\t_\t_\t_\t_\t(0)\n\n541\t0\t0\tShe\t_\t_\t_\t_\t_\t_\t_\t_\t("
      "0)\n\n#end document\n");
  ASSERT_EQ(data.examples.size(), 1u);
  const CoreferenceExample& one = data.examples[0];
  EXPECT_EQ(one.origin.id, "(541_age_brat); part 0");
  EXPECT_EQ(one.words.words, (Words{"Book", "Nilsson", "She"}));
  EXPECT_EQ(one.words.sentences, (std::vector<Index>{0, 2}));
  EXPECT_EQ(one.words.speakers, (Words{"", "", ""}));
  EXPECT_EQ(one.clusters, (Clusters{{{1, 1}, {2, 2}}}));
  EXPECT_EQ(data.mentions, 2);
  EXPECT_EQ(data.clusters, 1);
  EXPECT_EQ(data.singletons, 0);
}

TEST_F(CoreferenceFiles, ColumnsOfOntoNotesPartedByBlanks) {
  const CoreferenceData data = conll(
      "#begin document (bc/cctv/00/cctv_0000); part 001\n"
      "bc/cctv/00/cctv_0000   1   0    Hello  UH  (TOP*  -  -  -  Tom#1  *  -\n"
      "bc/cctv/00/cctv_0000   1   1       he  PRP   *    -  -  -  Tom#1  *  (4|(5)\r\n"
      "\r\n"
      "bc/cctv/00/cctv_0000   1   0      you  PRP   *    -  -  -  Ann  *  4)\n"
      "bc/cctv/00/cctv_0000   1   1        .   .    *    -  -  -  -    *  -  \n"
      "#end document\n");
  const CoreferenceExample& one = data.examples.at(0);
  EXPECT_EQ(one.origin.id, "(bc/cctv/00/cctv_0000); part 001");
  EXPECT_EQ(one.origin.line, 1);
  EXPECT_EQ(one.words.words, (Words{"Hello", "he", "you", "."}));
  EXPECT_EQ(one.words.speakers, (Words{"Tom#1", "Tom#1", "Ann", ""}));
  EXPECT_EQ(one.words.sentences, (std::vector<Index>{0, 2}));
  EXPECT_EQ(one.clusters, (Clusters{{{1, 1}}, {{1, 2}}}));
}

TEST_F(CoreferenceFiles, TheTenthColumnIsNoSpeakerWhereItIsTheLast) {
  const CoreferenceData data =
      conll("#begin document (a); part 000\na 0 0 he _ _ _ _ _ (1)\n#end document\n");
  EXPECT_EQ(data.examples.at(0).words.speakers, (Words{""}));
  EXPECT_EQ(data.examples.at(0).clusters, (Clusters{{{0, 0}}}));
}

TEST_F(CoreferenceFiles, MentionsOfOneClusterInEachOther) {
  // The last one that began ends first, as in the reference scorer.
  EXPECT_EQ(of_labels({"(1", "(1", "1)", "1)"}), (Clusters{{{0, 3}, {1, 2}}}));
  EXPECT_EQ(of_labels({"(1(1)", "1)"}), (Clusters{{{0, 0}, {0, 1}}}));
}

TEST_F(CoreferenceFiles, ASpanInTwoClustersIsTheFirstOnesAndCounted) {
  const CoreferenceData data = conll(document({"(1)|(2)", "(2)", "(2)|(2)"}));
  EXPECT_EQ(data.examples.at(0).clusters, (Clusters{{{0, 0}}, {{1, 1}, {2, 2}}}));
  EXPECT_EQ(data.examples.at(0).repeated_spans, 2);
  EXPECT_EQ(data.repeated_spans, 2);
  EXPECT_EQ(data.singletons, 1);
  const CoreferenceData lines =
      json(R"({"tokens": ["a", "b"], "clusters": [[[0, 0], [1, 1]], [[1, 1]]]})");
  EXPECT_EQ(lines.examples.at(0).clusters, (Clusters{{{0, 0}, {1, 1}}}));
  EXPECT_EQ(lines.repeated_spans, 1);
}

TEST_F(CoreferenceFiles, ErrorsOfConllNameFileLineAndCluster) {
  expect_error(error(document({"-", "(12", "-"})), {"a.conll:1", "cluster 12 of line 3", "none"});
  expect_error(error(document({"-", "12)"})), {"a.conll:3", "cluster 12 that ends here"});
  expect_error(error(document({"(1)|2"})), {"a.conll:2", "last column", "(1)|2"});
  expect_error(error(document({"()"})), {"a.conll:2", "last column", "()"});
  expect_error(error(document({"(1)x)"})), {"a.conll:2"});
  expect_error(error("a\t0\t0\the\t(1)\n"), {"a.conll:1", "#begin document"});
  expect_error(error("#begin document (a); part 000\na\t0\the\n"), {"a.conll:2", "column 4"});
  expect_error(error("#begin document (a); part 000\na\t0\t0\t\t-\n"), {"a.conll:2", "column 4"});
  expect_error(error(""), {"a.conll", "at least one document"});
  expect_error(error("\n\n"), {"a.conll", "at least one document"});
}

TEST_F(CoreferenceFiles, BrokenDocumentsAreLeftOutAndCounted) {
  DataOptions options;
  options.skip_invalid = true;
  const CoreferenceData data = conll(document({"(1)"}, "\t", "x") + document({"(1"}, "\t", "y") +
                                         document({"2)"}, " ", "z") + document({"-"}, "\t", "v"),
                                     options);
  ASSERT_EQ(data.examples.size(), 2u);
  EXPECT_EQ(data.examples[1].origin.id, "(v); part 000");
  EXPECT_EQ(data.report.examples, 2);
  EXPECT_EQ(data.report.skipped, 2);
  expect_error(data.report.first_skipped(), {"a.conll:5", "cluster 1 of line 6"});
}

TEST_F(CoreferenceFiles, DocumentsThatEndWithoutSayingSo) {
  const CoreferenceData data = conll(
      "# a comment\n#begin document (a); part 000 \na\t0\t0\the\t(1)\n#begin document (b); part "
      "000\n"
      "#begin document (c); part 000\nc\t0\t0\t#\t-");
  ASSERT_EQ(data.examples.size(), 3u);
  EXPECT_EQ(data.examples[0].origin.id, "(a); part 000");
  EXPECT_EQ(data.examples[1].words.words, Words{});
  EXPECT_EQ(data.report.empty, 1);
  EXPECT_EQ(data.examples[2].words.words, Words{"#"});
}

TEST_F(CoreferenceFiles, JsonLines) {
  const CoreferenceData data = json(
      R"({"doc_key": "k", "sentences": [["he", "was"], [], ["she"]], "clusters": [[[2, 2], [0, 1]]], "speakers": [["x", "-"], [], [null]], "genre": "nw"})"
      "\n\n"
      R"({"id": 7, "tokens": ["a", "b"], "clusters": [], "speakers": ["x", "y"]})"
      "\n"
      R"({"text": "Ångström's dog. He ran", "clusters": [[[0, 8], [16, 18]], [[0, 14]]]})");
  ASSERT_EQ(data.examples.size(), 3u);
  const CoreferenceExample& first = data.examples[0];
  EXPECT_EQ(first.origin.id, "k");
  EXPECT_EQ(first.words.words, (Words{"he", "was", "she"}));
  EXPECT_EQ(first.words.sentences, (std::vector<Index>{0, 2}));
  EXPECT_EQ(first.words.speakers, (Words{"x", "", ""}));
  EXPECT_EQ(first.clusters, (Clusters{{{0, 1}, {2, 2}}}));
  EXPECT_EQ(data.examples[1].origin.id, "7");
  EXPECT_TRUE(data.examples[1].words.sentences.empty());
  EXPECT_TRUE(data.examples[1].clusters.empty());
  const CoreferenceExample& text = data.examples[2];
  // A document without a key is called by its line.
  EXPECT_EQ(text.origin.id, "4");
  EXPECT_EQ(text.origin.line, 4);
  EXPECT_EQ(text.words.words, (Words{"Ångström", "'", "s", "dog", ".", "He", "ran"}));
  EXPECT_EQ(text.words.sentences, (std::vector<Index>{0, 5}));
  EXPECT_EQ(text.clusters, (Clusters{{{0, 0}, {5, 5}}, {{0, 3}}}));
  EXPECT_EQ(data.mentions, 5);
  EXPECT_EQ(data.singletons, 1);
}

TEST_F(CoreferenceFiles, ErrorsOfJsonNameFileAndLine) {
  const auto of = [&](const std::string& line) { return error(line, "a.jsonl"); };
  expect_error(of("{\"clusters\": []}"),
               {"a.jsonl:1", "\"sentences\", \"tokens\" or \"text\"", "{skip_invalid}"});
  expect_error(of(R"({"tokens": ["a"]})"), {"a.jsonl:1", "clusters", "no such member"});
  expect_error(of(R"({"tokens": "a b", "clusters": []})"), {"list of strings", "tokens"});
  expect_error(of(R"({"tokens": [["a"]], "clusters": []})"), {"strings", "tokens"});
  expect_error(of(R"({"sentences": ["a"], "clusters": []})"), {"list of strings", "sentences"});
  expect_error(of(R"({"sentences": [[1]], "clusters": []})"), {"strings", "sentences", "1"});
  expect_error(of(R"({"sentences": [[["a"]]], "clusters": []})"), {"strings", "sentences"});
  expect_error(of(R"({"tokens": ["a"], "speakers": ["x", "y"], "clusters": []})"),
               {"each of 1 words, found 2"});
  expect_error(of(R"({"tokens": ["a"], "speakers": [["x"], "y"], "clusters": []})"), {"speakers"});
  expect_error(of(R"({"tokens": ["a"], "clusters": [[]]})"), {"lists of mentions", "[]"});
  expect_error(of(R"({"tokens": ["a"], "clusters": [[0, 0]]})"), {"mentions [first, last]", "0"});
  expect_error(of(R"({"tokens": ["a"], "clusters": [[[0, 1]]]})"),
               {"whole words among 1", "[0,1]"});
  expect_error(of(R"({"tokens": ["a", "b"], "clusters": [[[1, 0]]]})"),
               {"whole words among 2", "[1,0]"});
  expect_error(of(R"({"tokens": ["a"], "clusters": [[[-1, 0]]]})"), {"whole words"});
  expect_error(of(R"({"tokens": ["a"], "clusters": [[[0, 18446744073709551615]]]})"),
               {"whole words"});
  expect_error(of(R"({"tokens": ["a"], "clusters": [[[0, 0.5]]]})"), {"mentions [first, last]"});
  expect_error(of(R"({"text": "abc d", "clusters": [[[0, 2]]]})"), {"whole words", "[0,2]"});
  expect_error(of(R"({"text": 3, "clusters": []})"), {"string", "text"});
  expect_error(of(R"({"doc_key": [], "tokens": [], "clusters": []})"), {"doc_key"});
  expect_error(of("[1]"), {"a.jsonl"});
}

TEST_F(CoreferenceFiles, PredictionsNeedNeitherWordsNorClusters) {
  const CoreferenceData data = json(R"({"doc_key": "k", "clusters": [[[5, 6]]]})"
                                    "\n"
                                    R"({"tokens": ["a"]})",
                                    {.words = false, .clusters = false});
  EXPECT_EQ(data.examples.at(0).clusters, (Clusters{{{5, 6}}}));
  EXPECT_TRUE(data.examples.at(0).words.words.empty());
  EXPECT_TRUE(data.examples.at(1).clusters.empty());
}

TEST_F(CoreferenceFiles, ConllTextComesBack) {
  CoreferenceExample one;
  one.origin.id = "k";
  one.words = {.words = {"a", "b", "", "d e", "\tf\n", "g"}, .sentences = {0, 2, 5}};
  // Nested, of one word, ending where others begin, and crossing.
  const Clusters clusters = {{{0, 0}, {0, 5}, {2, 4}}, {{0, 2}, {1, 3}, {3, 3}}, {{2, 2}, {3, 5}}};
  const CoreferenceData back = conll(conll_text(one, clusters));
  ASSERT_EQ(back.examples.size(), 1u);
  EXPECT_EQ(back.examples[0].origin.id, "(k); part 000");
  EXPECT_EQ(back.examples[0].words.words, (Words{"a", "b", "_", "d_e", "_f_", "g"}));
  EXPECT_EQ(back.examples[0].words.sentences, one.words.sentences);
  // Crossing mentions of one cluster are ambiguous in this form: ends belong to the last begin.
  Clusters expected = clusters;
  expected[1] = {{0, 3}, {1, 2}, {3, 3}};
  put_in_order(expected);
  EXPECT_EQ(back.examples[0].clusters, expected);
}

TEST_F(CoreferenceFiles, ConllTextHasColumnsThatTheScorerReads) {
  CoreferenceExample one;
  one.origin.id = "(a b); part 012";
  one.words = {.words = {"He", "saw", "him"}, .sentences = {0}};
  EXPECT_EQ(conll_text(one, {{{0, 0}, {0, 2}}, {{1, 2}}}),
            "#begin document (a b); part 012\na_b\t0\t0\tHe\t(0|(0)\na_b\t0\t1\tsaw\t(1\n"
            "a_b\t0\t2\thim\t1)|0)\n\n#end document\n");
  EXPECT_EQ(conll_key("k"), "(k); part 000");
  EXPECT_EQ(conll_key("(k); part 0"), "(k); part 0");
  EXPECT_EQ(conll_key("a\nb"), "(a b); part 000");
}

TEST(WordsOfText, AreThoseOfBertWithTheirCharacters) {
  const TextWords text = words_of_text(" Dr. Ångström's 2nd\u00a0ship\u0000, 中文! \n");
  std::vector<std::pair<std::int64_t, std::int64_t>> spans;
  for (const CharacterSpan& span : text.characters) spans.emplace_back(span.begin, span.end);
  EXPECT_EQ(text.words.words[0], "Dr");
  EXPECT_EQ(text.words.words.size(), spans.size());
  EXPECT_EQ(words_of_text("").words.words, Words{});
  EXPECT_EQ(words_of_text(" \n").words.words, Words{});
  const TextWords plain = words_of_text("It's 2nd 中文!");
  EXPECT_EQ(plain.words.words, (Words{"It", "'", "s", "2nd", "中", "文", "!"}));
  EXPECT_EQ(plain.characters.back().begin, 11);
  EXPECT_EQ(plain.characters.back().end, 12);
}

}  // namespace
}  // namespace longformer::tasks::coreference_data_test
