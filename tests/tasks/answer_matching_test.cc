// Places of known answers in texts: the traps of docs/spec/tasks.md#t0-words, and a comparison with
// a search that tries every span.
#include "tasks/question_answering/answer_matching.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <random>

namespace longformer::tasks::answer_matching_test {
namespace {

using Strings = std::vector<std::string>;

/// The text with its spans in brackets.
std::string found(const Strings& answers, std::string_view text,
                  AnswerMatching matching = AnswerMatching::words) {
  const std::vector<std::size_t> starts = character_starts(text);
  std::string all;
  for (const CharacterSpan& span : AnswerMatcher(answers, matching).find(text)) {
    const std::size_t begin = starts[static_cast<std::size_t>(span.begin)];
    const std::size_t end = starts[static_cast<std::size_t>(span.end)];
    all += "[" + std::string(text.substr(begin, end - begin)) + "]";
  }
  return all;
}

std::string found_substrings(const Strings& answers, std::string_view text) {
  return found(answers, text, AnswerMatching::substring);
}

TEST(TriviaNormalization, PunctuationBecomesSpacesAndArticlesGo) {
  EXPECT_EQ(normalized_trivia_answer("Campbell-Bannerman"), "campbell bannerman");
  EXPECT_EQ(normalized_trivia_answer("Prime_Minister  of\tthe\nU.K."), "prime minister of u k");
  EXPECT_EQ(normalized_trivia_answer("‘The Cat’s´ `hat`’"), "cat s hat");
  EXPECT_EQ(normalized_trivia_answer("A the an AN The"), "");
  EXPECT_EQ(normalized_trivia_answer("Athens and another theatre"), "athens and another theatre");
  EXPECT_EQ(normalized_trivia_answer(""), "");
  EXPECT_EQ(normalized_trivia_answer("!?."), "");
}

TEST(TriviaNormalization, OtherCharactersAreAsInPython) {
  // Punctuation outside ASCII stays; an article next to it separates its neighbours.
  EXPECT_EQ(normalized_trivia_answer("x–the–Y"), "x– –y");
  EXPECT_EQ(normalized_trivia_answer("“An”swer"), "“ ”swer");
  EXPECT_EQ(normalized_trivia_answer("ÉCOLE\u00a0Ünter\u2003Straße"), "école ünter straße");
  EXPECT_EQ(normalized_trivia_answer("İzmir"), "i\u0307zmir");
  EXPECT_EQ(normalized_trivia_answer("ΟΔΟΣ ΣΟΦΟΣ"), "οδος σοφος");
  // A mark is no \w of Python: the letter before it is an article.
  EXPECT_EQ(normalized_trivia_answer("a\u0301b"), "\u0301b");
  EXPECT_EQ(normalized_trivia_answer("æ"), "æ");
}

TEST(AnswerMatching, AnswersAreRunsOfWholeWords) {
  EXPECT_EQ(found({"york"}, "Yorkshire, New York and york."), "[York][york]");
  EXPECT_EQ(found({"campbell bannerman"}, "Sir Henry Campbell-Bannerman (Campbell‘Bannerman)."),
            "[Campbell-Bannerman][Campbell‘Bannerman]");
  EXPECT_EQ(found({"campbell bannerman"}, "CampbellBannerman, Campbell; a Bannerman"),
            "[Campbell; a Bannerman]");
  EXPECT_EQ(found({"u k"}, "the U.K.'s UK"), "[U.K]");
}

TEST(AnswerMatching, ArticlesAreInsideSpansAndNeverAtTheirEnds) {
  EXPECT_EQ(found({"lord of rings"}, "The Lord of the Rings, a Lord of an (the) Rings"),
            "[Lord of the Rings][Lord of an (the) Rings]");
  EXPECT_EQ(found({"The Lord of The Rings"}, "Lord of rings the"), "[Lord of rings]");
  EXPECT_EQ(found({"x– –y"}, "x–the–Y x– –y"), "[x–the–Y][x– –y]");
}

TEST(AnswerMatching, EmptyAnswersMatchNothing) {
  EXPECT_EQ(found({"", "the", "!?", "  "}, "the ! a  b"), "");
  EXPECT_EQ(found({}, "text"), "");
  EXPECT_EQ(found({"text"}, ""), "");
  EXPECT_EQ(found_substrings({"", "b"}, "abc"), "[b]");
}

TEST(AnswerMatching, SpansOfSeveralAnswersOverlapAndComeOnceInOrder) {
  EXPECT_EQ(found({"york", "new york", "New York", "york city", "new york city"}, "New York City"),
            "[New York][New York City][York][York City]");
  EXPECT_EQ(found({"x x"}, "x x x"), "[x x][x x]");
}

TEST(AnswerMatching, PlacesAreCharacters) {
  const AnswerMatcher matcher(Strings{"école normale"});
  const auto spans = matcher.find("«É»😀 l’École–\u00a0ÉCOLE   Normale.");
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0], (CharacterSpan{14, 29}));
  const auto broken = AnswerMatcher(Strings{"b"}).find("\xff\xe2 b");
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_EQ(broken[0], (CharacterSpan{3, 4}));
}

TEST(AnswerMatching, SubstringsAreAnywhereWithoutRegardToCase) {
  EXPECT_EQ(found_substrings({"york"}, "Yorkshire, New York"), "[York][York]");
  EXPECT_EQ(found_substrings({"u.k. (x)*"}, "U.K. (X)* uxkx (x)"), "[U.K. (X)*]");
  EXPECT_EQ(found_substrings({"campbell bannerman"}, "Campbell-Bannerman"), "");
  // Matches of one answer do not overlap, as in re.finditer.
  EXPECT_EQ(found_substrings({"xx", "xxx"}, "xxxx"), "[xx][xxx][xx]");
  EXPECT_EQ(found_substrings({"ÉTÉ", "istanbul"}, "l’été, İSTANBUL"), "[été][İSTANBUL]");
}

/// The rule as a reader of the specification would try it out, on ASCII: every span from the first
/// character of a word that is no article to the last of one whose normal form is that of an
/// answer.
std::vector<CharacterSpan> tried_out(const Strings& answers, const std::string& text) {
  const auto normal = [](const std::string& s) {
    std::string form, word;
    const auto end_word = [&] {
      const bool counts = !word.empty() && word != "a" && word != "an" && word != "the";
      if (counts) form += (form.empty() ? "" : " ") + word;
      word.clear();
    };
    for (const char c : s) {
      const auto letter = static_cast<unsigned char>(c);
      if (std::isalnum(letter) != 0) {
        word += static_cast<char>(std::tolower(letter));
      } else {
        end_word();
      }
    }
    end_word();
    return form;
  };
  const auto is_word = [&](std::size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  };
  const auto is_article = [&](std::size_t begin, std::size_t end) {
    return normal(text.substr(begin, end - begin)).empty();
  };
  std::vector<std::pair<std::size_t, std::size_t>> words;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_word(i) || (i > 0 && is_word(i - 1))) continue;
    std::size_t end = i;
    while (is_word(end)) ++end;
    if (!is_article(i, end)) words.emplace_back(i, end);
  }
  std::vector<CharacterSpan> spans;
  for (std::size_t first = 0; first < words.size(); ++first) {
    for (std::size_t last = first; last < words.size(); ++last) {
      const std::size_t begin = words[first].first, end = words[last].second;
      const std::string form = normal(text.substr(begin, end - begin));
      const bool right = std::any_of(answers.begin(), answers.end(), [&](const std::string& one) {
        return !form.empty() && normal(one) == form;
      });
      if (right)
        spans.push_back({static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)});
    }
  }
  return spans;
}

TEST(AnswerMatching, RandomTextsAreSearchedAsByTryingEverySpan) {
  std::mt19937 random(7);
  const Strings pieces = {"a", "an", "the", "The", "x", "X", "y", "th", "e",  "ax",
                          " ", " ",  " ",   "-",   "_", "'", ".", "n",  "  ", "\n"};
  const auto drawn = [&](std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += pieces[random() % pieces.size()];
    return text;
  };
  std::size_t matches = 0;
  for (int round = 0; round < 300; ++round) {
    Strings answers;
    for (int i = 0; i < 4; ++i) answers.push_back(drawn(1 + random() % 4));
    const std::string text = drawn(30);
    const auto expected = tried_out(answers, text);
    EXPECT_EQ(AnswerMatcher(answers).find(text), expected) << text;
    matches += expected.size();
  }
  EXPECT_GT(matches, 100u);
}

TEST(AnswerMatching, TimeDoesNotDependOnTheNumberOfAnswers) {
  std::mt19937 random(3);
  const auto word = [&] {
    std::string text;
    for (std::size_t i = 0; i < 2 + random() % 6; ++i) {
      text += static_cast<char>('a' + random() % 26);
    }
    return text;
  };
  Strings answers;
  for (int i = 0; i < 10'000; ++i) answers.push_back(word() + " " + word());
  std::string text;
  while (text.size() < 1'000'000) text += word() + (random() % 9 == 0 ? ".\n" : " ");
  text += answers[77];
  for (const auto matching : {AnswerMatching::words, AnswerMatching::substring}) {
    const auto begin = std::chrono::steady_clock::now();
    const AnswerMatcher matcher(answers, matching);
    const auto built = std::chrono::steady_clock::now();
    const auto spans = matcher.find(text);
    const auto end = std::chrono::steady_clock::now();
    const auto ms = [](auto duration) {
      return std::chrono::duration<double, std::milli>(duration).count();
    };
    std::cout << "1 MB, 10,000 answers: " << ms(built - begin) << " ms to build, "
              << ms(end - built) << " ms to search, " << spans.size() << " matches\n";
    ASSERT_FALSE(spans.empty());
    EXPECT_EQ(spans.back().end, static_cast<std::int64_t>(text.size()));
    // Trying each answer by itself takes minutes.
    EXPECT_TRUE(ms(end - begin) <= 20'000);
  }
}

}  // namespace
}  // namespace longformer::tasks::answer_matching_test
