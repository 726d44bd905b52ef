// Counters: described once, and told everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "fixtures.h"
#include "longformer/evaluation.h"
#include "longformer/report.h"

namespace longformer::counters_test {
namespace {

constexpr Counter kCut = {
    .name = "cut",
    .meaning = "examples that were cut",
    .evaluation = {.one = "{n} of {examples|example} is cut by {lost|token}",
                   .many = "{n} of {examples|example} are cut by {lost|token}"}};
constexpr Counter kLost = {.name = "lost", .meaning = "tokens", .is_of_model = true};
constexpr Counter kWide = {
    .name = "wide",
    .meaning = "mentions",
    .evaluation = {.one = "{n} mention", .many = "{n|mention} and {cut+wide|entry|entries}"},
    .scope = CountScope::parts};
constexpr Counter kBefore = {.name = "before",
                             .meaning = "queries",
                             .evaluation = {.one = "left out; {first_skipped}", .many = "many"},
                             .option = "keep",
                             .scope = CountScope::data_set};

TEST(Counts, HaveNamesAndNumbers) {
  const Counter* const declared[] = {&kCut, &kLost};
  Counts counts{declared};
  counts[kLost] += 1200;
  ++counts[kWide];
  EXPECT_EQ(counts["lost"], 1200);
  EXPECT_EQ(counts["cut"], 0);
  EXPECT_EQ(counts["wide"], 1);
  EXPECT_EQ(counts["unknown"], 0);
  ASSERT_EQ(counts.all().size(), 3u);
  EXPECT_EQ(counts.all()[1].counter->name, "lost");
}

std::vector<std::string> texts_of(const std::vector<CountNote>& notes) {
  std::vector<std::string> texts;
  for (const CountNote& note : notes) texts.push_back(note.text);
  return texts;
}

TEST(Counts, AreToldInSentences) {
  using Strings = std::vector<std::string>;
  Counts counts;
  EXPECT_TRUE(notes_of(counts, &Counter::evaluation, {}).empty());
  counts[kWide] = 1;
  counts[kCut] = 1;
  counts[kLost] = 1;
  counts[kBefore] = 1;
  const CountContext context = {.examples = 1, .tokens = 5, .first_skipped = "a.csv:3: broken"};
  const auto one = notes_of(counts, &Counter::evaluation, context);
  EXPECT_EQ(texts_of(one), (Strings{"left out; a.csv:3: broken", "1 of 1 example is cut by 1 token",
                                    "1 mention"}));
  EXPECT_EQ(one[0].option, "keep");
  EXPECT_TRUE(notes_of(counts, &Counter::training, context).empty());
  counts[kBefore] = 0;
  counts[kWide] = 12345;
  counts[kCut] = 1000;
  counts[kLost] = 2000000;
  EXPECT_EQ(texts_of(notes_of(counts, &Counter::evaluation, {.examples = 4000})),
            (Strings{"1,000 of 4,000 examples are cut by 2,000,000 tokens",
                     "12,345 mentions and 13,345 entries"}));
}

/// Two counters may share a sentence.
TEST(Counts, SayNothingTwice) {
  constexpr std::string_view kBoth = "{a|paragraph} and {b|sentence}";
  const Counter a = {.name = "a", .meaning = "", .evaluation = {.one = kBoth, .many = kBoth}};
  const Counter b = {.name = "b", .meaning = "", .evaluation = a.evaluation};
  Counts counts;
  counts[a] = 0;
  counts[b] = 2;
  EXPECT_EQ(texts_of(notes_of(counts, &Counter::evaluation, {})),
            (std::vector<std::string>{"0 paragraphs and 2 sentences"}));
  counts[a] = 1;
  EXPECT_EQ(texts_of(notes_of(counts, &Counter::evaluation, {})),
            (std::vector<std::string>{"1 paragraph and 2 sentences"}));
}

TEST(Counters, StandInTheDocs) {
  std::string table;
  std::set<std::string_view> names;
  for (const Counter* counter : evaluation_counters()) {
    EXPECT_TRUE(names.insert(counter->name).second) << counter->name;
    table += "| `" + std::string(counter->name) + "` | " + std::string(counter->meaning) + " |\n";
  }
  std::ifstream file(fixtures_folder().parent_path().parent_path() / "docs" / "evaluate.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(page.find(table), std::string::npos) << "docs/evaluate.md: expected the rows\n"
                                                 << table;
}

/// Each name in a sentence is one that can be filled in.
TEST(Counters, NameOthersThatThereAre) {
  std::set<std::string> known = {"n", "examples", "tokens", "first_skipped"};
  for (const Counter* counter : evaluation_counters()) known.emplace(counter->name);
  for (const Counter* counter : evaluation_counters()) {
    for (std::string_view text : {counter->evaluation.one, counter->evaluation.many}) {
      for (std::size_t at = text.find('{'); at != std::string_view::npos; at = text.find('{')) {
        text.remove_prefix(at + 1);
        const std::string names(text.substr(0, text.find_first_of("|}")));
        const std::size_t plus = names.find('+');
        EXPECT_TRUE(known.contains(names.substr(0, plus))) << counter->name << ": " << names;
        if (plus == std::string::npos) continue;
        EXPECT_TRUE(known.contains(names.substr(plus + 1))) << counter->name << ": " << names;
      }
    }
  }
}

TEST(PublishedForms, NameTheirFiles) {
  EXPECT_EQ(published_form("coreference").name, "CoNLL-2012 (.conll), or of GAP .tsv");
  EXPECT_EQ(published_form("coreference").endings, (std::vector<std::string>{".conll", ".tsv"}));
  EXPECT_EQ(published_form("qa").name, "JSON (.json)");
  EXPECT_EQ(published_form("retrieval").endings[0], ".trec");
}

}  // namespace
}  // namespace longformer::counters_test
