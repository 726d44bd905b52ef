// Questions over paragraphs (HotpotQA): files, rows with marks, what is learnt of them, decoding
// and the selection for a second stage.
#include "tasks/multi_hop/multi_hop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "error_testing.h"
#include "fixtures.h"
#include "longformer/tasks.h"
#include "temporary_folder.h"

namespace longformer::tasks::multi_hop_test {
namespace {

using Ids = std::vector<std::int32_t>;
using Places = std::vector<Index>;
using Strings = std::vector<std::string>;

constexpr float kUnreadLogit = -std::numeric_limits<float>::infinity();

const std::filesystem::path kTokenizers = fixtures_folder() / "tokenizers";

// Files.

class MultiHopFiles : public testing::Test {
 protected:
  TemporaryFolder folder_;

  MultiHopData read(const std::string& contents, const std::string& file = "a.json",
                    const DataOptions& options = {}) {
    return read_multi_hop(folder_.add(file, contents), options);
  }
  std::string error(const std::string& contents, const std::string& file = "a.json") {
    return error_of([&] { read(contents, file); });
  }
};

constexpr const char* kPublished =
    R"({"_id": "x1", "question": "Who?", "answer": "He", "type": "bridge", "level": "hard",
"supporting_facts": [["B", 1], ["A", 0], ["B", 7], ["C", 0]],
"context": [["A", ["One.", " Two."]], ["B", ["Three.", "", " Five."]]]})";
constexpr const char* kHub =
    R"({"id": "x1", "question": "Who?", "answer": "He", "type": "bridge", "level": "hard",
"supporting_facts": {"title": ["B", "A", "B", "C"], "sent_id": [1, 0, 7, 0]},
"context": {"title": ["A", "B"], "sentences": [["One.", " Two."], ["Three.", "", " Five."]]}})";

std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

TEST_F(MultiHopFiles, PublishedFormAndThatOfTheHubSayTheSame) {
  for (const auto& [file, contents] : std::vector<std::pair<std::string, std::string>>{
           {"list.json", "[" + std::string(kPublished) + "]"},
           {"hub.json", "[" + std::string(kHub) + "]"},
           {"data.json", R"({"data": [)" + std::string(kHub) + "]}"},
           {"lines.jsonl", on_one_line(kPublished) + "\n"}}) {
    const MultiHopData data = read(contents, file);
    ASSERT_EQ(data.examples.size(), 1u) << file;
    const MultiHopExample& one = data.examples[0];
    EXPECT_EQ(one.origin.id, "x1");
    EXPECT_EQ(one.question.question, "Who?");
    EXPECT_EQ(one.answer, "He");
    ASSERT_EQ(one.question.paragraphs.size(), 2u);
    EXPECT_EQ(one.question.paragraphs[1].title, "B");
    EXPECT_EQ(one.question.paragraphs[1].sentences, (Strings{"Three.", "", " Five."}));
    // Two facts are of sentences that there are not; they stay, and are counted.
    EXPECT_EQ(data.missing_facts, 2);
    const std::vector<SupportingFact> facts = {{"B", 1}, {"A", 0}, {"B", 7}, {"C", 0}};
    EXPECT_EQ(one.facts, facts);
    EXPECT_TRUE(one.is_fact({"B", 1}) && !one.is_fact({"B", 0}));
    EXPECT_TRUE(one.is_evidence("B") && !one.is_evidence("D"));
  }
}

TEST_F(MultiHopFiles, TitlesAreComparedInTheirComposedForm) {
  const MultiHopData data = read(
      "[{\"_id\": \"t\", \"question\": \"q\", \"supporting_facts\": [[\"caf\u00e9\", 0], "
      "[\"caf\u00e9\", 1]], \"context\": [[\"cafe\u0301\", [\"a\"]], [\"cafe\", [\"b\"]]]}]");
  EXPECT_EQ(data.missing_facts, 1);
  const MultiHopExample& one = data.examples.at(0);
  EXPECT_TRUE(one.is_evidence("cafe\u0301") && !one.is_evidence("cafe"));
  EXPECT_TRUE(one.is_fact({"cafe\u0301", 0}) && !one.is_fact({"cafe", 0}));
}

TEST_F(MultiHopFiles, TestFilesHaveNoAnswers) {
  const MultiHopData data = read(
      R"([{"_id": "t", "question": "q", "context": []},
          {"_id": "u", "question": "q", "answer": null, "supporting_facts": null, "context": []}])");
  ASSERT_EQ(data.examples.size(), 2u);
  for (const MultiHopExample& one : data.examples) {
    EXPECT_FALSE(one.answer || one.facts);
    EXPECT_EQ(one.missing_facts(), 0);
  }
  EXPECT_EQ(data.report.empty, 2);
}

TEST_F(MultiHopFiles, FewerParagraphsKeepAllElse) {
  const MultiHopExample example = read("[" + std::string(kHub) + "]").examples[0];
  const std::vector<Index> second = {1};
  const Json record = with_paragraphs(example, second);
  EXPECT_EQ(record, Json::parse(R"({"_id": "x1", "question": "Who?", "answer": "He",
      "type": "bridge", "level": "hard",
      "supporting_facts": [["B", 1], ["A", 0], ["B", 7], ["C", 0]],
      "context": [["B", ["Three.", "", " Five."]]]})"));
}

TEST_F(MultiHopFiles, BrokenRecordsAreNamed) {
  const auto with = [](const std::string& members) {
    return R"([{"_id": "a", "question": "q", "context": []}, {"_id": "b", )" + members + "}]";
  };
  expect_error(error(with(R"("context": [])")), {"a.json: record 2", "\"question\""});
  expect_error(error(with(R"("question": "", "context": [])")), {"record 2", "an empty text"});
  expect_error(error(with(R"("question": "q")")), {"record 2", "paragraphs", "\"context\""});
  expect_error(error(with(R"("question": "q", "context": "x")")), {"record 2", "\"context\""});
  expect_error(error(with(R"("question": "q", "context": [["t", ["s"]], ["t"]])")),
               {"record 2", "paragraph 2", "[title, [sentence, …]]"});
  expect_error(error(with(R"("question": "q", "context": [["t", "s"]])")),
               {"record 2", "paragraph 1", "a list of sentences"});
  expect_error(error(with(R"("question": "q", "context": {"title": ["t"], "sentences": []})")),
               {"record 2", "of the same length"});
  expect_error(error(with(R"("question": "q", "context": [], "supporting_facts": [["t"]])")),
               {"record 2", "supporting_facts", "[title, sentence]"});
  expect_error(error(with(R"("question": "q", "context": [], "supporting_facts": [["t", "0"]])")),
               {"record 2", "supporting_facts", "the number of a sentence"});
  expect_error(error(with(R"("question": "q", "context": [], "supporting_facts": 3)")),
               {"record 2", "supporting_facts"});
  expect_error(error(with(R"("question": "q", "context": [], "answer": 3)")),
               {"record 2", "\"answer\""});
  expect_error(error(R"([{"question": "q", "context": []}])"), {"record 1", "id", "none"});
  expect_error(error("[]"), {"a.json", "at least one question"});
  expect_error(error(R"({"question")", "a.jsonl"), {"a.jsonl:1", "{skip_invalid}"});
  DataOptions options;
  options.skip_invalid = true;
  const MultiHopData data = read(with(R"("question": "q")"), "a.json", options);
  EXPECT_EQ(data.examples.size(), 1u);
  EXPECT_EQ(data.report.skipped, 1);
}

TEST_F(MultiHopFiles, PredictionsAreReadAsTheyAreWritten) {
  MultiHopPredictions all;
  all.answers = {{"a", "yes"}, {"b", "“x”\t"}};
  all.facts = {{"a", {{"T", 0}, {"T", 3}}}, {"b", {}}};
  const MultiHopPredictions read = read_multi_hop_predictions(folder_.add("p.json", text_of(all)));
  EXPECT_EQ(read.answers, all.answers);
  EXPECT_EQ(read.facts, all.facts);
  const auto refused = [&](const std::string& text) {
    return error_of([&] { read_multi_hop_predictions(folder_.add("q.json", text)); });
  };
  expect_error(refused(R"({"answer": {}})"), {"q.json", "\"sp\""});
  expect_error(refused(R"({"answer": {"a": 3}, "sp": {}})"), {"q.json", "a", "string"});
  expect_error(refused(R"({"answer": {}, "sp": {"a": [["T"]]}})"),
               {"q.json: sp: a", "[title, sentence]"});
}

// Rows.

class MultiHopRows : public testing::TestWithParam<std::string> {
 protected:
  Tokenizer tokenizer_ = Tokenizer::load((kTokenizers / GetParam()).string(), kMultiHopMarks);
  std::int32_t first_ = tokenizer_.special_tokens().cls.value();
  std::int32_t separator_ = tokenizer_.special_tokens().sep.value();

  MultiHopReader reader(ReadingOptions options) const {
    options.global_positions = [](const Encoding& row, std::string_view) {
      return multi_hop_globals(row);
    };
    return {tokenizer_, options};
  }
  std::int32_t mark(const char* name) const { return tokenizer_.id(name).value(); }

  /// The tokens of a text that stands behind a space.
  Ids text(const std::string& words) const {
    const bool space = tokenizer_.kind() == "byte-level BPE";
    return tokenizer_
        .encode((space ? " " : "") + words, {.add_special_tokens = false, .max_length = {}})
        .ids;
  }
  /// `parts` are marks and texts.
  Ids row(const Strings& parts) const {
    Ids ids = {first_};
    for (const std::string& part : parts) {
      if (const auto id = tokenizer_.id(part); id && *id >= tokenizer_.id("[q]").value()) {
        ids.push_back(*id);
        continue;
      }
      const Ids more = text(part);
      ids.insert(ids.end(), more.begin(), more.end());
    }
    ids.push_back(separator_);
    return ids;
  }
};

MultiHopQuestion two_paragraphs() {
  return {"Who is he?",
          {{"The man", {"He was here.", " She was not.  ", ""}}, {"Other", {"It is."}}}};
}

TEST_P(MultiHopRows, MarksStandBehindSentencesAndAroundTitles) {
  const MultiHopReading read = reader({.max_tokens = 64}).read(two_paragraphs());
  ASSERT_EQ(read.reading.rows.size(), 1u);
  const Ids& ids = read.reading.rows[0].ids;
  EXPECT_EQ(ids, row({"[q]", "Who is he?", "[/q]", "<t>", "The man", "</t>", "He was here.", "[s]",
                      "She was not.", "[s]", "[s]", "<t>", "Other", "</t>", "It is.", "[s]"}));
  EXPECT_EQ(read.reading.tokens, std::ssize(ids));
  EXPECT_EQ(read.reading.truncated, 0);
  const auto is_mark = [&](Index place, const char* name) { return ids[at(place)] == mark(name); };
  ASSERT_EQ(read.paragraphs.size(), 2u);
  EXPECT_TRUE(is_mark(read.paragraphs[0], "<t>") && is_mark(read.paragraphs[1], "<t>"));
  ASSERT_EQ(read.sentences[0].size(), 3u);
  ASSERT_EQ(read.sentences[1].size(), 1u);
  for (const Places& marks : read.sentences) {
    for (const Index place : marks) EXPECT_TRUE(is_mark(place, "[s]"));
  }
  // An empty sentence has a mark and no tokens.
  EXPECT_EQ(read.sentences[0][2], read.sentences[0][1] + 1);
  EXPECT_EQ(read.texts.size(), 5u);
  // Global: <s> to [/q], every <t>, every [s]; not </t>.
  Places globals;
  const Index question = std::ssize(text("Who is he?")) + 3;
  for (Index i = 0; i < question; ++i) globals.push_back(i);
  for (Index i = question; i < std::ssize(ids); ++i) {
    if (is_mark(i, "<t>") || is_mark(i, "[s]")) globals.push_back(i);
  }
  EXPECT_EQ(read.reading.rows[0].global_positions, globals);
}

TEST_P(MultiHopRows, CharactersAreThoseOfTitlesAndSentences) {
  const MultiHopQuestion question = two_paragraphs();
  const MultiHopReading read = reader({.max_tokens = 64}).read(question);
  for (const ReadText& one : read.texts) {
    const Paragraph& paragraph = question.paragraphs[at(one.paragraph)];
    const std::string& whole =
        one.sentence == kTitle ? paragraph.title : paragraph.sentences[at(one.sentence)];
    ASSERT_EQ(std::ssize(one.offsets), one.read);
    EXPECT_EQ(one.offsets.front().begin, static_cast<Index>(whole.find_first_not_of(' ')));
    EXPECT_EQ(one.offsets.back().end, static_cast<Index>(whole.find_last_not_of(' ') + 1));
  }
}

TEST_P(MultiHopRows, WhatIsCutHasNoMark) {
  const MultiHopReading whole = reader({.max_tokens = 64}).read(two_paragraphs());
  const Index size = whole.reading.tokens;
  expect_error(error_of([&] { reader({.max_tokens = size - 1}).read(two_paragraphs()); }),
               {std::to_string(size - 1), std::to_string(size), "{truncate} {split}"});
  const ReadingOptions options = {.max_tokens = size - 1, .too_long = TooLong::truncate};
  const MultiHopReading cut = reader(options).read(two_paragraphs());
  EXPECT_EQ(std::ssize(cut.reading.rows[0].ids), size - 1);
  EXPECT_EQ(cut.reading.rows[0].ids.back(), separator_);
  EXPECT_EQ(cut.reading.truncated, 1);
  EXPECT_EQ(cut.sentences[1], Places{kUnread});
  EXPECT_EQ(cut.unread_sentences, 1);
  EXPECT_EQ(cut.unread_paragraphs, 0);
  const Index question = std::ssize(text("Who is he?")) + 3;
  const MultiHopReading least =
      reader({.max_tokens = question + 2, .too_long = TooLong::truncate}).read(two_paragraphs());
  EXPECT_EQ(least.paragraphs, (Places{question, kUnread}));
  EXPECT_EQ(least.unread_paragraphs, 1);
  EXPECT_EQ(least.unread_sentences, 4);
  EXPECT_TRUE(least.texts.empty());
  expect_error(
      error_of([&] {
        reader({.max_tokens = question + 1, .too_long = TooLong::truncate}).read(two_paragraphs());
      }),
      {"question", std::to_string(question)});
}

TEST_P(MultiHopRows, RowsHoldWholeParagraphsBehindTheQuestion) {
  const Index question = std::ssize(text("Who is he?")) + 3;
  const MultiHopReading whole = reader({.max_tokens = 64}).read(two_paragraphs());
  const Index most = whole.paragraphs[1] + 1;
  const MultiHopReading read =
      reader({.max_tokens = most, .too_long = TooLong::split}).read(two_paragraphs());
  ASSERT_EQ(read.reading.rows.size(), 2u);
  EXPECT_EQ(read.reading.rows[1].ids,
            row({"[q]", "Who is he?", "[/q]", "<t>", "Other", "</t>", "It is.", "[s]"}));
  EXPECT_EQ(read.reading.truncated, 0);
  EXPECT_EQ(read.row_starts, (Places{0, most}));
  // Places count over all rows.
  EXPECT_EQ(read.paragraphs, (Places{question, most + question}));
  EXPECT_EQ(read.sentences[1][0], most + std::ssize(read.reading.rows[1].ids) - 2);
  // A paragraph that has no room in a row of its own is cut; the next one begins a row.
  const MultiHopReading cut =
      reader({.max_tokens = most - 2, .too_long = TooLong::split}).read(two_paragraphs());
  ASSERT_EQ(cut.reading.rows.size(), 2u);
  EXPECT_EQ(cut.reading.truncated, 2);
  EXPECT_EQ(cut.sentences[0][1], kUnread);
  EXPECT_EQ(cut.unread_sentences, 2);
}

TEST_P(MultiHopRows, MarksInTextsAndTokenizersWithoutMarksAreRefused) {
  MultiHopQuestion question = two_paragraphs();
  question.paragraphs[1].sentences[0] = "crowd[s] of";
  expect_error(error_of([&] { reader({.max_tokens = 64}).read(question); }),
               {"without the special token [s]"});
  const Tokenizer plain = Tokenizer::load((kTokenizers / GetParam()).string());
  expect_error(error_of([&] { MultiHopReader(plain, {.max_tokens = 64}); }), {"[q]", "none"});
}

TEST_P(MultiHopRows, WithoutParagraphsTheQuestionIsRead) {
  const MultiHopReading read = reader({.max_tokens = 64}).read({"Who is he?", {}});
  ASSERT_EQ(read.reading.rows.size(), 1u);
  EXPECT_EQ(read.reading.rows[0].ids, row({"[q]", "Who is he?", "[/q]"}));
  EXPECT_TRUE(read.paragraphs.empty() && read.texts.empty());
}

// Targets of a training.

class MultiHopTargets : public MultiHopRows {
 protected:
  MultiHopTarget target(const MultiHopExample& example, Index max_tokens = 128) {
    const ReadingOptions options = {.max_tokens = max_tokens, .too_long = TooLong::truncate};
    Collator rows(tokenizer_, options);
    const auto examples = collate(rows, reader(options), example, {.loss_weights = {1, 2, 3, 4}});
    report_ = rows.report();
    ids_ = examples.at(0).rows.at(0).ids;
    return examples[0].targets[0].multi_hop.value();
  }
  /// Text of a span of tokens.
  std::string read(Index start, Index end) const {
    const Ids ids(ids_.begin() + start, ids_.begin() + end + 1);
    std::string said = tokenizer_.decode(ids);
    return said.substr(said.find_first_not_of(' '));
  }

  CollationReport report_;
  Ids ids_;
};

MultiHopExample answered(const std::string& answer) {
  MultiHopExample example;
  example.question = {
      "who",
      {{"king house", {"it is in kingdom .", "king has it .", "the old king for it ."}},
       {"other king", {"king ."}},
       {"far", {"it has houses .", "far ."}}}};
  example.answer = answer;
  example.facts = {{"king house", 1}, {"far", 0}};
  return example;
}

TEST_P(MultiHopTargets, WordsOfFactsAndTitlesComeFirst) {
  const MultiHopTarget one = target(answered("King"));
  EXPECT_EQ(one.answer_type, 0);
  // The title and the fact; neither inside "kingdom", nor another sentence, nor another
  // paragraph.
  ASSERT_EQ(one.starts.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(read(one.starts[i], one.ends[i]), "king");
  EXPECT_EQ(one.paragraph_labels, (std::vector<float>{1, 0, 1}));
  EXPECT_EQ(one.sentence_labels, (std::vector<float>{0, 1, 0, 0, 1, 0}));
  EXPECT_EQ(one.loss_weights, (std::array<double, 4>{1, 2, 3, 4}));
  EXPECT_EQ(report_.counts["unreached_answers"], 0);
}

TEST_P(MultiHopTargets, ThenOtherSentencesThenLetters) {
  const MultiHopTarget other = target(answered("the old king"));
  ASSERT_EQ(other.starts.size(), 1u);
  EXPECT_EQ(read(other.starts[0], other.ends[0]), "old king");
  const MultiHopTarget letters = target(answered("ingdo"));
  ASSERT_EQ(letters.starts.size(), 1u);
  EXPECT_NE(read(letters.starts[0], letters.ends[0]).find("ingdo"), std::string::npos);
  const MultiHopTarget none = target(answered("water"));
  EXPECT_TRUE(none.starts.empty() && none.ends.empty());
  EXPECT_EQ(none.answer_type, 0);
  EXPECT_EQ(report_.counts["unreached_answers"], 1);
}

TEST_P(MultiHopTargets, YesAndNoHaveNoSpan) {
  EXPECT_EQ(target(answered("Yes!")).answer_type, 1);
  const MultiHopTarget no = target(answered("the no"));
  EXPECT_EQ(no.answer_type, 2);
  EXPECT_TRUE(no.starts.empty());
  EXPECT_EQ(report_.counts["unreached_answers"], 0);
}

TEST_P(MultiHopTargets, FactsThatThereAreNotHaveNoLabel) {
  MultiHopExample example = answered("king");
  example.facts = {{"king house", 17}, {"king house", -1}, {"nowhere", 0}, {"far", 1}};
  EXPECT_EQ(example.missing_facts(), 3);
  const MultiHopTarget one = target(example);
  EXPECT_EQ(one.paragraph_labels, (std::vector<float>{1, 0, 1}));
  EXPECT_EQ(one.sentence_labels, (std::vector<float>{0, 0, 0, 0, 0, 1}));
}

TEST_P(MultiHopTargets, WhatIsUnknownOrCutDoesNotCount) {
  MultiHopExample unknown = answered("king");
  unknown.answer.reset();
  unknown.facts.reset();
  const MultiHopTarget nothing = target(unknown);
  EXPECT_EQ(nothing.answer_type, ops::kIgnored);
  EXPECT_TRUE(nothing.starts.empty() && nothing.paragraphs.empty() && nothing.sentences.empty());
  // Rows that end behind the first title.
  const Index title = std::ssize(text("who")) + 3;
  const Index end = title + 1 + std::ssize(text("king house")) + 1;
  const MultiHopTarget cut = target(answered("far"), end);
  EXPECT_EQ(cut.paragraphs, Places{title});
  EXPECT_TRUE(cut.sentences.empty() && cut.starts.empty());
  EXPECT_EQ(report_.counts["unreached_answers"], 1);
  EXPECT_EQ(report_.counts["unread_paragraphs"], 2);
  EXPECT_EQ(report_.counts["unread_sentences"], 6);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, MultiHopRows, testing::Values("bert_uncased", "roberta"));
INSTANTIATE_TEST_SUITE_P(Tokenizers, MultiHopTargets, testing::Values("bert_uncased", "roberta"));

// Decoding.

/// Two paragraphs of one-token words, whose tokens stand at 10 · paragraph + place.
struct Decoding {
  MultiHopQuestion question = {"q", {{"a b", {"c d e", "f"}}, {"g", {"h i", ""}}}};
  MultiHopReading reading;
  MultiHopLogits logits;

  Decoding() {
    reading.row_starts = {0};
    reading.paragraphs = {2, 11};
    reading.sentences = {{8, 10}, {16, 17}};
    const auto text = [&](Index paragraph, Index sentence, Index first, Index words) {
      ReadText& one = reading.texts.emplace_back();
      one = {paragraph, sentence, first, words, {}};
      for (Index i = 0; i < words; ++i) one.offsets.push_back({2 * i, 2 * i + 1});
    };
    text(0, kTitle, 3, 2);
    text(0, 0, 5, 3);
    text(0, 1, 9, 1);
    text(1, kTitle, 12, 1);
    text(1, 0, 14, 2);
    logits.starts.assign(18, -5);
    logits.ends.assign(18, -5);
    logits.paragraphs = {0, 0};
    logits.sentences = {-1, -2, -3, -4};
  }
  MultiHopDecision decide(Index evidence = 2, Index longest = 30) const {
    return tasks::decide(question, reading, logits, {.top_k = 1, .max_tokens = longest}, evidence);
  }
  Strings evidence(Index count) const {
    Strings names;
    for (const EvidenceSentence& one : decide(count).evidence) {
      names.push_back(std::to_string(one.paragraph) + "." + std::to_string(one.sentence));
    }
    return names;
  }
};

TEST(MultiHopDecoding, SpansStayInOneTitleOrSentence) {
  Decoding one;
  // The best start is in the title and the best end in a sentence; marks have better ones.
  one.logits.starts[3] = 4;
  one.logits.ends[7] = 4;
  one.logits.starts[8] = one.logits.ends[8] = 50;
  one.logits.starts[0] = one.logits.ends[0] = 60;
  one.logits.starts[6] = 3;
  const MultiHopDecision found = one.decide();
  EXPECT_EQ(found.type, AnswerType::span);
  EXPECT_EQ(found.answer, "d e");
  EXPECT_EQ(found.span->logit, 7);
  EXPECT_EQ(found.span->characters, (CharacterSpan{2, 5}));
  EXPECT_EQ(one.decide(2, 1).answer, "a");
  // Ties: the earlier start, then the shorter span.
  one.logits.starts.assign(18, 0);
  one.logits.ends.assign(18, 0);
  EXPECT_EQ(one.decide().answer, "a");
  one.logits.starts[5] = one.logits.starts[14] = 1;
  EXPECT_EQ(one.decide().answer, "c");
}

TEST(MultiHopDecoding, SpansAreWidenedToWords) {
  Decoding one;
  one.question.paragraphs[1].sentences[0] = "hi";
  one.reading.texts[4].offsets = {{0, 1}, {1, 2}};
  one.logits.starts[15] = one.logits.ends[15] = 9;
  EXPECT_EQ(one.decide().answer, "hi");
  EXPECT_EQ(one.decide().span->logit, 18);
}

TEST(MultiHopDecoding, TypesDecide) {
  Decoding one;
  one.logits.types = {1, 1, 0};
  EXPECT_EQ(one.decide().type, AnswerType::span);
  one.logits.types = {1, 2, 2};
  EXPECT_EQ(one.decide().answer, "yes");
  one.logits.types = {1, 2, 3};
  EXPECT_EQ(one.decide().answer, "no");
  one.logits.types = {1, 0, 0};
  one.reading.texts.clear();
  EXPECT_EQ(one.decide().answer, "");
  EXPECT_FALSE(one.decide().span.has_value());
}

TEST(MultiHopDecoding, EvidenceIsOfTwoParagraphs) {
  Decoding one;
  EXPECT_EQ(one.evidence(2), (Strings{"0.0", "1.0"}));
  // v(p) = paragraph + its best sentence: 0 − 1 against 1.5 − 3.
  one.logits.paragraphs = {0, 1.5f};
  EXPECT_EQ(one.evidence(1), Strings{"0.0"});
  one.logits.paragraphs = {0, 2};
  // A tie: the earlier one.
  EXPECT_EQ(one.evidence(1), Strings{"0.0"});
  one.logits.paragraphs = {0, 2.5f};
  EXPECT_EQ(one.evidence(1), Strings{"1.0"});
  one.logits.sentences = {0.5f, 1, -3, 0};
  EXPECT_EQ(one.evidence(2), (Strings{"0.0", "0.1", "1.1"}));
  EXPECT_EQ(one.evidence(0), (Strings{"0.0", "0.1"}));
  EXPECT_EQ(one.evidence(7), (Strings{"0.0", "0.1", "1.1"}));
}

TEST(MultiHopDecoding, ParagraphsWithoutReadSentencesAreNoEvidence) {
  Decoding one;
  one.reading.sentences = {{kUnread, kUnread}, {16, kUnread}};
  one.logits.sentences = {-3};
  one.logits.paragraphs = {9, 0};
  EXPECT_EQ(one.evidence(2), Strings{"1.0"});
  one.reading.paragraphs = {2, kUnread};
  one.logits.paragraphs = {9};
  EXPECT_TRUE(one.evidence(2).empty());
  EXPECT_EQ(one.decide().paragraphs, (std::vector<float>{9, kUnreadLogit}));
  one.logits.sentences = {3};
  EXPECT_EQ(one.evidence(0), Strings{"1.0"});
}

TEST(MultiHopDecoding, ParagraphsAreSelectedForASecondStage) {
  const std::vector<float> logits = {-2, 1, -3, 5, -2.9f, 4, 3, kUnreadLogit};
  EXPECT_EQ(selected_paragraphs(logits, {}), (Places{0, 1, 3, 5, 6}));
  EXPECT_EQ(selected_paragraphs(logits, {.keep_paragraphs = 10}), (Places{0, 1, 3, 4, 5, 6}));
  EXPECT_EQ(selected_paragraphs(logits, {.paragraph_threshold = 3.5}), (Places{3, 5}));
  // Fewer than two are left: the two best ones.
  EXPECT_EQ(selected_paragraphs(logits, {.paragraph_threshold = 50}), (Places{3, 5}));
  EXPECT_EQ(selected_paragraphs({1, 1, 1}, {.paragraph_threshold = 50}), (Places{0, 1}));
  EXPECT_EQ(selected_paragraphs({kUnreadLogit, kUnreadLogit, 1}, {}), (Places{0, 2}));
  EXPECT_EQ(selected_paragraphs({-9}, {}), Places{0});
  EXPECT_TRUE(selected_paragraphs({}, {}).empty());
}

// Results as JSON.

TEST(MultiHopJson, PlacesAreThoseInTheTextOfTheParagraph) {
  const MultiHopQuestion question = {.question = "who",
                                     .paragraphs = {{"Aé", {" He was.", "Then", "", "no. "}}}};
  MultiHopOutcome outcome;
  outcome.answer = "en";
  outcome.type = "span";
  outcome.score = 0.5f;
  outcome.logit = 2;
  outcome.span = ParagraphSpan{0, 1, {2, 4}};
  outcome.evidence = {{0, 3, 0}};
  outcome.paragraph_logits = {kUnreadLogit};
  // A blank stands between "was." and "Then", and none before the empty sentence.
  EXPECT_EQ(to_json(outcome, question),
            R"({"tokens":0,"truncated":0,"segments":0,"answer":"en","type":"span","score":0.5,)"
            R"("logit":2,"span":{"title":"Aé","paragraph":0,"sentence":1,"begin":11,"end":13,)"
            R"("text":"en"},"evidence":[{"title":"Aé","paragraph":0,"sentence":3,"begin":14,)"
            R"("end":17,"text":"no.","score":0.5,"logit":0}],)"
            R"("paragraphs":[{"title":"Aé","logit":null}]})");
  const MultiHopForm form = {.names = {R"({"file":"x"})"}, .is_joined = true};
  EXPECT_EQ(part_of(question, *outcome.span, form).span, (CharacterSpan{10, 12}));
  EXPECT_EQ(part_of(question, {0, -1, {1, 2}}, form).text, "é");
  outcome.span.reset();
  outcome.evidence.clear();
  const std::string json = to_json(outcome, question, form);
  EXPECT_NE(json.find(R"("span":null,"evidence":[],"paragraphs":[{"file":"x","logit":null}])"),
            std::string::npos)
      << json;
}

}  // namespace
}  // namespace longformer::tasks::multi_hop_test
