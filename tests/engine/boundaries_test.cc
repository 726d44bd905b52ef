// Ends of sentences, words and graphemes, at which passages and answers end.
#include "text/boundaries.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/reading/passages.h"
#include "fixtures.h"
#include "tasks/question_answering/answers.h"
#include "text/graphemes.h"
#include "text/unicode.h"

namespace longformer::text::boundaries_test {
namespace {

namespace fs = std::filesystem;
const fs::path kFixtures = fixtures_folder() / "boundaries";

nlohmann::json fixture(const char* name) {
  return nlohmann::json::parse(std::ifstream(kFixtures / name));
}

/// The text with a bar at each place inside it that is at least so good a boundary.
std::string cut(const std::string& text, Boundary least) {
  const std::vector<std::size_t> starts = character_starts(text);
  const std::vector<Boundary> all = boundaries(text);
  EXPECT_EQ(all.size(), starts.size());
  std::string result;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    if (i > 0 && all[i] >= least) result += '|';
    result += text.substr(starts[i], starts[i + 1] - starts[i]);
  }
  return result;
}

std::string sentences(const std::string& text) { return cut(text, Boundary::sentence); }

TEST(Sentences, EndAtTheMarksOfEveryScript) {
  for (const auto& mark : fixture("sentence_marks.json")) {
    const std::string end = mark.get<std::string>();
    EXPECT_EQ(sentences("ab" + end + " Cd"), "ab" + end + " |Cd") << end;
    EXPECT_EQ(sentences("ab" + end + "\u00bb) Cd"), "ab" + end + "\u00bb) |Cd") << end;
  }
}

TEST(Sentences, OfScriptsWithoutBlanksNeedNone) {
  EXPECT_EQ(sentences("一只猫。两只狗！三只鸟？好"), "一只猫。|两只狗！|三只鸟？|好");
  EXPECT_EQ(sentences("「行く。」と彼。（注）次"), "「行く。」|と彼。|（注）次");
  EXPECT_EQ(sentences("他说：“走吧！”她走了。"), "他说：“走吧！”|她走了。");
  EXPECT_EQ(sentences("真的？！好"), "真的？！|好");
  EXPECT_EQ(sentences("好!我们走?是"), "好!|我们走?|是");
  EXPECT_EQ(sentences("版本３．１４在2.5版"), "版本３．１４在2.5版");
  EXPECT_EQ(sentences("はい．次"), "はい．|次");
  EXPECT_EQ(sentences("एक है।दो"), "एक है।|दो");
  EXPECT_EQ(sentences("ﾊｲ｡ﾂｷﾞ"), "ﾊｲ｡|ﾂｷﾞ");
  EXPECT_EQ(sentences("བོད་ཡིག། དཔེ"), "བོད་ཡིག། |དཔེ");
  EXPECT_EQ(sentences("不，他说"), "不，他说");
}

TEST(Sentences, OfScriptsWithBlanksNeedOne) {
  EXPECT_EQ(sentences("Pi is 3.14. See a?b=c!d now."), "Pi is 3.14. |See a?b=c!d now.");
  EXPECT_EQ(sentences("\"Go.\" He went.\nShe too."), "\"Go.\" |He went.\n|She too.");
  EXPECT_EQ(sentences("„Geh.“ Er ging. «Oui. » Non"), "„Geh.“ |Er ging. |«Oui. » |Non");
  EXPECT_EQ(sentences("He said (this.) And _that._ So"), "He said (this.) |And _that._ |So");
  EXPECT_EQ(sentences("He waited… Then he… went… 5"), "He waited… |Then he… went… |5");
  EXPECT_EQ(sentences("قطة؟ كلب؟"), "قطة؟ |كلب؟");
  EXPECT_EQ(sentences("An end.\u00ad More"), "An end.\u00ad |More");
}

TEST(Paragraphs, EndAtAnEmptyLine) {
  for (const char* blank : {"\n\n", "\r\n\r\n", "\r\r", "\n \t\n", "\u2029"}) {
    const std::string text = "one" + std::string(blank) + "two";
    EXPECT_EQ(cut(text, Boundary::paragraph), "one" + std::string(blank) + "|two");
  }
  for (const char* blank : {"\n", "\r\n", "\r", " "}) {
    const std::string text = "one" + std::string(blank) + "two";
    EXPECT_EQ(cut(text, Boundary::paragraph), text);
  }
}

std::string words(const std::string& text) { return cut(text, Boundary::beside_mark); }

TEST(Words, GoOnOverWhatIsInvisible) {
  for (const char* invisible : {"\u00ad", "\u200d", "\u200c", "\u2060", "\ufeff", "\u034f",
                                "\u0301", "\u180e", "\u200e", "\ufe0f", "\u0651"}) {
    const std::string word = "ab" + std::string(invisible) + "cd1_2";
    EXPECT_EQ(words(word), word);
  }
  EXPECT_EQ(words("यह मैं पढ़ता"), "यह| |मैं| |पढ़ता");
  EXPECT_EQ(words("اَلْكِتَابُ جَمِيل"), "اَلْكِتَابُ| |جَمِيل");
  EXPECT_EQ(words("하나 둘"), "하나| |둘");
  EXPECT_EQ(words("a\u200bb"), "a|\u200b|b");
  EXPECT_EQ(words("x-y,z"), "x|-|y|,|z");
}

TEST(Words, OfScriptsWithoutBlanks) {
  EXPECT_EQ(words("東京タワーきょう"), "東|京|タワー|きょ|う");
  EXPECT_EQ(words("人々は3月"), "人々|は|3|月");
  EXPECT_EQ(words("กำลังที่"), "กำ|ลั|ง|ที่");
  EXPECT_EQ(cut("東京、大阪（日本）の", Boundary::word), "東京、|大阪（日本）|の");
}

TEST(Graphemes, AreThoseOfUnicode) {
  for (const auto& row : fixture("graphemes.json")) {
    const std::string text = row[0].get<std::string>();
    const std::vector<std::size_t> starts = character_starts(text);
    std::vector<std::int64_t> ends;
    GraphemeBreaks breaks;
    for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
      const bool begins = breaks.begins(decode_character(text, starts[i]).value);
      if (begins && i > 0) ends.push_back(static_cast<std::int64_t>(i));
    }
    ends.push_back(static_cast<std::int64_t>(starts.size()) - 1);
    EXPECT_EQ(ends, row[1].get<std::vector<std::int64_t>>()) << text;
    std::int64_t begin = 0;
    for (const std::int64_t end : ends) {
      for (std::int64_t i = begin; i < end; ++i) {
        EXPECT_EQ(whole_graphemes(text, starts, {i, i + 1}), (CharacterSpan{begin, end}));
        EXPECT_EQ(whole_graphemes(text, starts, {i, i}), (CharacterSpan{i, i}));
      }
      begin = end;
    }
  }
}

/// One token for each character that is no blank and none of `dropped`.
std::vector<CharacterSpan> letters(const std::string& text, const std::string& dropped) {
  const std::vector<std::size_t> starts = character_starts(text);
  std::vector<CharacterSpan> tokens;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const std::string letter = text.substr(starts[i], starts[i + 1] - starts[i]);
    const auto begin = static_cast<std::int64_t>(i);
    if (letter != " " && dropped.find(letter) == std::string::npos) {
      tokens.push_back({begin, begin + 1});
    }
  }
  return tokens;
}

TEST(Passages, EndInsideNoWordThatFits) {
  for (const std::string word : {"infor\u00admation", "de\u0301veloppe\u0301", "मैंपढ़ता", "كِتَابُ"}) {
    for (Index tokens = 8; tokens < 40; ++tokens) {
      std::string text;
      for (int i = 0; i < 20; ++i) text += (i % 3 == 0 ? "a " : "") + word + " ";
      const auto offsets = letters(text, "\u00ad\u0301\u064e\u0650\u064f\u0902\u0948\u093c");
      const std::vector<Boundary> all = boundaries(text);
      if (static_cast<Index>(
              letters(word, "\u00ad\u0301\u064e\u0650\u064f\u0902\u0948\u093c").size()) > tokens) {
        continue;
      }
      for (const auto& passage :
           engine::cut_passages(text, offsets, {.tokens = tokens, .overlapping = false})) {
        EXPECT_LE(passage.size(), tokens);
        if (passage.begin == 0) continue;
        const auto begin = offsets[static_cast<std::size_t>(passage.begin)].begin;
        EXPECT_EQ(all[static_cast<std::size_t>(begin)], Boundary::word) << word << " " << tokens;
      }
    }
  }
}

TEST(Passages, CutAWordThatFitsInNoneBetweenGraphemes) {
  std::string text = "a ";
  for (int i = 0; i < 50; ++i) text += "\u0915\u094d\u0937";
  const auto offsets = letters(text, "");
  for (const auto& passage :
       engine::cut_passages(text, offsets, {.tokens = 7, .overlapping = false})) {
    EXPECT_TRUE(passage.begin == 0 || (passage.begin - 1) % 3 == 0) << passage.begin;
    EXPECT_LE(passage.size(), 7);
  }
}

TEST(SentenceStarts, AreTheFirstTokenOfEach) {
  const std::string text = "Eins. Zwei.  Drei";
  // Bytes as tokens: the blank alone, or with the letter behind it.
  const std::vector<CharacterSpan> apart = {{0, 4},   {4, 5},   {5, 6},   {6, 10},
                                            {10, 11}, {11, 12}, {12, 13}, {13, 17}};
  EXPECT_EQ(engine::sentence_starts(text, apart), (std::vector<Index>{0, 3, 7}));
  const std::vector<CharacterSpan> trimmed = {{0, 4}, {4, 5}, {6, 6}, {6, 10}, {10, 11}, {13, 17}};
  EXPECT_EQ(engine::sentence_starts(text, trimmed), (std::vector<Index>{0, 3, 5}));
  const std::vector<CharacterSpan> joined = {{0, 4}, {4, 5}, {5, 10}, {10, 11}, {11, 12}, {12, 17}};
  EXPECT_EQ(engine::sentence_starts(text, joined), (std::vector<Index>{0, 2, 5}));
}

TEST(Answers, AreWholeWordsOverWhatATokenizerLeavesOut) {
  const auto inside = [](const std::string& text, const std::string& dropped) {
    std::string flags;
    const auto offsets = letters(text, dropped);
    for (const std::uint8_t flag : tasks::begins_inside_word(text, offsets)) {
      flags += flag != 0 ? '1' : '0';
    }
    return flags;
  };
  EXPECT_EQ(inside("ab\u00adcd e", "\u00ad"), "01110");
  EXPECT_EQ(inside("e\u0301a\u0301 b", "\u0301"), "010");
  EXPECT_EQ(inside("a,b", ","), "00");
  EXPECT_EQ(inside("東京へ", ""), "000");
  // Two tokens of one emoji.
  const std::vector<CharacterSpan> shared = {{0, 1}, {0, 1}, {1, 2}};
  EXPECT_EQ(tasks::begins_inside_word("\U0001f600\U0001f600", shared),
            (std::vector<std::uint8_t>{0, 1, 0}));
}

}  // namespace
}  // namespace longformer::text::boundaries_test
