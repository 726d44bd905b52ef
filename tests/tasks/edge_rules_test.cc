// Edges of questions over paragraphs, by rules (docs/spec/other-attentions.md#edges).
#include "tasks/multi_hop/edge_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fixtures.h"

namespace longformer::tasks::edge_rules_test {
namespace {

using models::Edge;

/// Texts whose tokens are their words at blanks, behind each other with a mark between.
class Texts {
 public:
  void add(std::string text, Index paragraph = -1, bool is_title = false) {
    std::vector<CharacterSpan> offsets;
    const auto characters = [&](std::size_t bytes) {
      return static_cast<Index>(std::count_if(
          text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bytes),
          [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
    };
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t end = std::min(text.find(' ', i), text.size());
      if (end > i) {
        offsets.push_back({characters(i), characters(end)});
        words_.push_back(text.substr(i, end - i));
      }
      i = end + 1;
    }
    kept_.push_back({std::move(text), std::move(offsets), next_, paragraph, is_title});
    words_.emplace_back("[s]");
    next_ = std::ssize(words_);
  }

  std::vector<LinkedText> all(Index read = 1000) const {
    std::vector<LinkedText> texts;
    for (const Kept& one : kept_) {
      const Index count =
          std::min<Index>(std::ssize(one.offsets), std::max<Index>(read - one.first, 0));
      if (count == 0) continue;
      const Index mark = one.first + std::ssize(one.offsets);
      texts.push_back({.text = one.text,
                       .offsets = std::span(one.offsets).first(at(count)),
                       .first = one.first,
                       .paragraph = one.paragraph,
                       .is_title = one.is_title,
                       .mark = mark < read ? mark : kUnread});
    }
    return texts;
  }
  const std::string& word(Index token) const { return words_[at(token)]; }

  /// "A>B" for each edge of a kind, by the words of both.
  std::set<std::string> edges(const std::string& kind) const {
    const std::vector<std::string> kinds = {kind};
    std::set<std::string> found;
    for (const Edge& edge : linked_tokens(all(), kinds)) {
      EXPECT_EQ(edge.kind, 0);
      found.insert(word(edge.query) + std::to_string(edge.query) + ">" + word(edge.key) +
                   std::to_string(edge.key));
    }
    return found;
  }

 private:
  struct Kept {
    std::string text;
    std::vector<CharacterSpan> offsets;
    Index first, paragraph;
    bool is_title;
  };
  std::vector<Kept> kept_;
  std::vector<std::string> words_;
  Index next_ = 0;
};

/// Each mention as its words, name by name.
std::vector<std::vector<std::string>> named(const Texts& texts) {
  std::vector<std::vector<std::string>> names;
  for (const auto& mentions : mentions_of_names(texts.all())) {
    auto& words = names.emplace_back();
    for (const Mention& mention : mentions) {
      std::string text;
      for (Index i = mention.tokens.begin; i < mention.tokens.end; ++i) {
        text += (text.empty() ? "" : " ") + texts.word(i);
      }
      words.push_back(text);
    }
  }
  return names;
}

using Names = std::vector<std::vector<std::string>>;

TEST(Names, AreRunsOfCapitalsThatComeAgain) {
  Texts texts;
  texts.add("Did Ed Wood know Lugosi ?");
  texts.add("Ed Wood", 0, true);
  texts.add("Ed Wood made films .", 0);
  texts.add("He met Bela Lugosi in Paris .", 0);
  EXPECT_EQ(named(texts), (Names{{"Ed Wood", "Ed Wood", "Ed Wood"}}));
}

TEST(Names, DoNotBeginWithAWordThatIsUsuallySmall) {
  Texts texts;
  texts.add("The River", 0, true);
  texts.add("The River is long and the Thames is not .", 0);
  texts.add("The Thames flows . The Seine flows .", 1);
  // Within a text "The" is of the name; a title keeps it.
  EXPECT_EQ(named(texts), (Names{{"Thames", "Thames"}}));
}

TEST(Names, EndAtPunctuationAndGoOnBehindHyphens) {
  Texts texts;
  texts.add("with Jean-Luc Godard , Paris", 0);
  texts.add("of Jean-Luc Godard and Paris", 0);
  EXPECT_EQ(named(texts), (Names{{"Jean-Luc Godard", "Jean-Luc Godard"}, {"Paris", "Paris"}}));
}

TEST(Names, AreReadInAllScripts) {
  Texts texts;
  texts.add("in Škoda und Ångström");
  texts.add("bei Ångström");
  EXPECT_EQ(named(texts), (Names{{"Ångström", "Ångström"}}));
}

TEST(Names, LinkMentionsInDifferentTextsBothWays) {
  Texts texts;
  texts.add("by Ed Wood", 0);
  texts.add("for Ed Wood and Ed Wood", 0);
  // by0 Ed1 Wood2 [s]3 for4 Ed5 Wood6 and7 Ed8 Wood9
  std::set<std::string> expected;
  for (const char* a : {"Ed1", "Wood2"}) {
    for (const char* b : {"Ed5", "Wood6", "Ed8", "Wood9"}) {
      expected.insert(std::string(a) + ">" + b);
      expected.insert(std::string(b) + ">" + a);
    }
  }
  EXPECT_EQ(texts.edges("names"), expected);
}

TEST(Names, HaveFewLinksHoweverOftenTheyCome) {
  Texts texts;
  constexpr Index kTexts = 100;
  for (Index i = 0; i < kTexts; ++i) texts.add("near Paris", i);
  const std::vector<std::string> kinds = {"names"};
  std::vector<std::size_t> count(at(3 * kTexts));
  for (const Edge& edge : linked_tokens(texts.all(), kinds)) ++count[at(edge.query)];
  EXPECT_EQ(*std::max_element(count.begin(), count.end()), 2 * kMostLinks);
}

TEST(Names, ThatAreCutAreNone) {
  Texts texts;
  texts.add("by Ed Wood");
  texts.add("for Ed Wood");
  // The last word is not read.
  EXPECT_EQ(mentions_of_names(texts.all(7)).size(), 1u);
  EXPECT_TRUE(mentions_of_names(texts.all(6)).empty());
}

TEST(Titles, SeeTheirSentencesAndTheirMentions) {
  Texts texts;
  texts.add("Who made it ?");
  texts.add("Ed Wood (film)", 0, true);
  texts.add("Made in 1994 .", 0);
  texts.add("Burton", 1, true);
  texts.add("He made Ed Wood .", 1);
  // Who0 made1 it2 ?3 [s]4 Ed5 Wood6 (film)7 [s]8 Made9 in10 199411 .12 [s]13 Burton14 [s]15 He16
  // made17 Ed18 Wood19 .20 [s]21
  std::set<std::string> expected;
  const auto both = [&](const std::string& a, const std::string& b) {
    expected.insert(a + ">" + b);
    expected.insert(b + ">" + a);
  };
  for (const char* word : {"Ed5", "Wood6", "(film)7"}) {
    for (const char* other : {"Made9", "[s]13", "Ed18", "Wood19"}) both(word, other);
  }
  for (const char* other : {"He16", "[s]21"}) both("Burton14", other);
  EXPECT_EQ(texts.edges("titles"), expected);
}

TEST(Kinds, HaveTheNumbersOfTheirOrder) {
  Texts texts;
  texts.add("Ed Wood", 0, true);
  texts.add("by Ed Wood", 1);
  std::set<std::int32_t> kinds;
  for (const Edge& edge : linked_tokens(texts.all(), std::vector<std::string>{"titles", "names"})) {
    kinds.insert(edge.kind);
  }
  EXPECT_EQ(kinds, (std::set<std::int32_t>{0, 1}));
  EXPECT_TRUE(linked_tokens(texts.all(), {}).empty());
}

class EdgesOfRows : public testing::TestWithParam<std::string> {
 protected:
  Tokenizer tokenizer_ =
      Tokenizer::load((fixtures_folder() / "tokenizers" / GetParam()).string(), kMultiHopMarks);
  MultiHopQuestion question_ = {"Who knew Ed Wood?",
                                {{"Ed Wood", {"He made films.", " He and Lugosi made many."}},
                                 {"Lugosi", {"He was an actor.", " He met Ed Wood late."}}}};
};

/// Rows count from their own first token, and texts are what their tokens say.
TEST_P(EdgesOfRows, StayInTheirRows) {
  ReadingOptions options = {.max_tokens = 200, .edges = {"names", "titles"}};
  const MultiHopReading whole = MultiHopReader(tokenizer_, options).read(question_);
  ASSERT_EQ(whole.reading.rows.size(), 1u);
  const auto tokens_of = [&](const TokenRow& row, const std::string& text) {
    // In this small vocabulary a blank is a token of its own, which belongs to no name.
    const auto ids = encode_plain(tokenizer_, text).ids;
    std::set<std::int32_t> places;
    for (auto at = row.ids.begin(); at != row.ids.end();) {
      at = std::search(at, row.ids.end(), ids.begin(), ids.end());
      if (at == row.ids.end()) break;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        places.insert(static_cast<std::int32_t>(at - row.ids.begin()) +
                      static_cast<std::int32_t>(i));
      }
      ++at;
    }
    return places;
  };
  std::set<std::int32_t> named;
  for (const Edge& edge : whole.reading.rows[0].edges) {
    if (edge.kind == 0) named.insert({edge.query, edge.key});
  }
  std::set<std::int32_t> expected = tokens_of(whole.reading.rows[0], "Ed Wood");
  expected.merge(tokens_of(whole.reading.rows[0], "Lugosi"));
  EXPECT_EQ(named, expected);

  const auto size = std::ssize(whole.reading.rows[0].ids);
  options.max_tokens = size - 4;
  options.too_long = TooLong::split;
  const MultiHopReading parts = MultiHopReader(tokenizer_, options).read(question_);
  ASSERT_EQ(parts.reading.rows.size(), 2u);
  for (const TokenRow& row : parts.reading.rows) {
    EXPECT_FALSE(row.edges.empty());
    for (const Edge& edge : row.edges) {
      EXPECT_TRUE(edge.query >= 0 && edge.query < std::ssize(row.ids));
      EXPECT_TRUE(edge.key >= 0 && edge.key < std::ssize(row.ids));
    }
    std::set<std::int32_t> of_row;
    for (const Edge& edge : row.edges) {
      if (edge.kind == 0) of_row.insert(edge.query);
    }
    EXPECT_EQ(of_row, tokens_of(row, "Ed Wood"));
  }
  options.edges.clear();
  for (const TokenRow& row : MultiHopReader(tokenizer_, options).read(question_).reading.rows) {
    EXPECT_TRUE(row.edges.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, EdgesOfRows, testing::Values("bert_uncased", "roberta"));

}  // namespace
}  // namespace longformer::tasks::edge_rules_test
