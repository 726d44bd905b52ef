// Rows of questions whose candidates are read together (docs/spec/tasks.md#c4-candidates).
#include "tasks/choice/candidate_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "error_testing.h"
#include "fixtures.h"

namespace longformer::tasks::candidate_reader_test {
namespace {

using Ids = std::vector<std::int32_t>;

const std::filesystem::path kTokenizers = fixtures_folder() / "tokenizers";

class Candidates : public testing::TestWithParam<std::string> {
 protected:
  Tokenizer tokenizer_ = Tokenizer::load((kTokenizers / GetParam()).string(), kCandidateMarks);
  std::int32_t first_ = tokenizer_.special_tokens().cls.value();
  std::int32_t separator_ = tokenizer_.special_tokens().sep.value();

  CandidateReader reader(const ReadingOptions& options) const { return {tokenizer_, options}; }
  std::int32_t mark(std::size_t i) const { return tokenizer_.id(kCandidateMarks[i]).value(); }
};

TEST_P(Candidates, MarksGetTheIdsBehindAllOthers) {
  const Tokenizer before = Tokenizer::load((kTokenizers / GetParam()).string());
  for (std::size_t i = 0; i < kCandidateMarks.size(); ++i) {
    EXPECT_EQ(mark(i), before.vocabulary_size() + static_cast<std::int64_t>(i));
    EXPECT_EQ(
        tokenizer_.encode(kCandidateMarks[i], {.add_special_tokens = false, .max_length = {}}).ids,
        Ids{mark(i)});
  }
  EXPECT_EQ(tokenizer_.vocabulary_size(), before.vocabulary_size() + 4);
  expect_error(error_of([&] { CandidateReader(before, {.max_tokens = 64}); }),
               {"[question]", "none"});
}

TEST_P(Candidates, OneRowHoldsAll) {
  const CandidateReader reader = this->reader(
      {.max_tokens = 64, .global_positions = [](const Encoding& row, std::string_view) {
         return of_candidate_part(row);
       }});
  const CandidateTokens tokens = {
      .question = {7, 8}, .candidates = {{9}, {10, 11}}, .supports = {{12, 13}, {14}}};
  const Reading rows = reader.read(tokens);
  ASSERT_EQ(rows.rows.size(), 1u);
  const Ids expected = {first_,  mark(0),    7,          8,  mark(1),   mark(2),    9,
                        mark(3), mark(2),    10,         11, mark(3),   separator_, 12,
                        13,      separator_, separator_, 14, separator_};
  EXPECT_EQ(rows.rows[0].ids, expected);
  EXPECT_EQ(rows.places, (std::vector<std::int64_t>{5, 8}));
  EXPECT_EQ(rows.tokens, 19);
  EXPECT_EQ(rows.truncated, 0);
  std::vector<std::int64_t> before(12);
  std::iota(before.begin(), before.end(), 0);
  EXPECT_EQ(rows.rows[0].global_positions, before);
  EXPECT_EQ(rows.rows[0].types, Ids(19, 0));
}

TEST_P(Candidates, LongSupportsAreCutOrSplitAsTheScriptDoesIt) {
  const CandidateTokens tokens = {.question = {7}, .candidates = {{9}}, .supports = {Ids(20, 12)}};
  expect_error(error_of([&] { reader({.max_tokens = 15}).read(tokens); }),
               {"15 tokens", "29", "{truncate} {split}"});
  const Reading cut = reader({.max_tokens = 15, .too_long = TooLong::truncate}).read(tokens);
  ASSERT_EQ(cut.rows.size(), 1u);
  EXPECT_EQ(cut.rows[0].ids.size(), 15u);
  EXPECT_EQ(cut.truncated, 14);
  // Seven tokens of the question; parts of eight of the 22 of the supports.
  const Reading split =
      reader({.max_tokens = 15, .too_long = TooLong::split, .stride = 0}).read(tokens);
  ASSERT_EQ(split.rows.size(), 3u);
  Ids supports;
  for (const TokenRow& row : split.rows) {
    EXPECT_TRUE(std::equal(row.ids.begin(), row.ids.begin() + 7, split.rows[0].ids.begin()));
    supports.insert(supports.end(), row.ids.begin() + 7, row.ids.end());
  }
  Ids expected(22, 12);
  expected.front() = expected.back() = separator_;
  EXPECT_EQ(supports, expected);
  const Reading overlapping =
      reader({.max_tokens = 15, .too_long = TooLong::split, .stride = 3}).read(tokens);
  EXPECT_EQ(overlapping.rows.size(), 4u);
  EXPECT_EQ(overlapping.truncated, 0);
}

TEST_P(Candidates, TextsAreJoinedAndReadBehindASpace) {
  const CandidateReader reader = this->reader({.max_tokens = 64});
  const CandidateTokens spaced = reader.tokens({.context = "",
                                                .question = " He said ( so ) , \"no\" ! ",
                                                .choices = {"it 's", "a ."},
                                                .supports = {"the end ?"}});
  const CandidateTokens plain = reader.tokens({.context = "",
                                               .question = "He said (so), \"no\"!",
                                               .choices = {"it's", "a."},
                                               .supports = {"the end?"}});
  EXPECT_EQ(spaced.question, plain.question);
  EXPECT_EQ(spaced.candidates, plain.candidates);
  EXPECT_EQ(spaced.supports, plain.supports);
  const std::string word = tokenizer_.kind() == "WordPiece" ? "the" : " the";
  EXPECT_EQ(reader.tokens({.context = "", .question = "the", .choices = {"a"}}).question,
            tokenizer_.encode(word, {.add_special_tokens = false, .max_length = {}}).ids);
  expect_error(
      error_of([&] { reader.tokens({.context = "", .question = "a [ent]", .choices = {"b"}}); }),
      {"[ent]"});
}

TEST_P(Candidates, AContextAloneIsOneSupport) {
  const CandidateReader reader = this->reader({.max_tokens = 64});
  const auto context = reader.tokens({.context = "the end", .question = "a", .choices = {"b"}});
  const auto support = reader.tokens(
      {.context = "unread", .question = "a", .choices = {"b"}, .supports = {"the end"}});
  EXPECT_EQ(context.supports, support.supports);
  const auto none = reader.read(reader.tokens({.context = "", .question = "a", .choices = {"b"}}));
  EXPECT_EQ(none.rows.at(0).ids.back(), separator_);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Candidates,
                         testing::Values("bert_uncased", "roberta", "prefix_space"),
                         [](const auto& info) { return info.param; });

TEST(ShuffledCandidates, KeepsTheAnswerAndEverythingElse) {
  CandidateTokens tokens = {.question = {1}, .candidates = {}, .supports = {}};
  for (std::int32_t i = 0; i < 9; ++i) tokens.candidates.push_back({i});
  for (std::int32_t i = 0; i < 5; ++i) tokens.supports.push_back({i});
  int moved = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const ShuffledCandidates mixed = shuffled(tokens, 4, seed);
    EXPECT_EQ(mixed.tokens.candidates.at(static_cast<std::size_t>(mixed.label)), Ids{4});
    auto sorted = mixed.tokens;
    std::sort(sorted.candidates.begin(), sorted.candidates.end());
    std::sort(sorted.supports.begin(), sorted.supports.end());
    EXPECT_EQ(sorted.candidates, tokens.candidates);
    EXPECT_EQ(sorted.supports, tokens.supports);
    EXPECT_EQ(shuffled(tokens, 4, seed).tokens.candidates, mixed.tokens.candidates);
    moved += mixed.tokens.candidates != tokens.candidates ? 1 : 0;
  }
  EXPECT_GE(moved, 19);
}

}  // namespace
}  // namespace longformer::tasks::candidate_reader_test
