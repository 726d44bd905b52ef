// Entities and answers from logits: the cases that are easy to get wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tasks/question_answering/answers.h"
#include "tasks/tagging/entities.h"

namespace longformer::tasks::spans_test {
namespace {

const std::vector<std::string> kLabels = {"O", "B-PER", "I-PER", "LOC"};

/// Logits of tokens that are nearly sure of one label.
std::vector<float> sure_of(const std::vector<std::size_t>& labels) {
  std::vector<float> logits(labels.size() * kLabels.size(), 0.0f);
  for (std::size_t i = 0; i < labels.size(); ++i) logits[i * kLabels.size() + labels[i]] = 9;
  return logits;
}

std::vector<std::pair<std::string, Index>> groups(const std::vector<std::size_t>& labels,
                                                  const std::vector<std::uint8_t>& continues,
                                                  Aggregation aggregation) {
  const auto logits = sure_of(labels);
  std::vector<std::pair<std::string, Index>> found;
  for (const auto& entity : group_entities(
           {.logits = logits, .labels = kLabels, .continues_word = continues}, aggregation)) {
    found.emplace_back(entity.label, entity.tokens.size());
  }
  return found;
}

using Groups = std::vector<std::pair<std::string, Index>>;

TEST(Entities, ABeginsANewGroupAndAnInsideContinues) {
  EXPECT_EQ(groups({1, 2, 1, 0, 2, 3, 3}, std::vector<std::uint8_t>(7, 0), Aggregation::simple),
            (Groups{{"PER", 2}, {"PER", 1}, {"O", 1}, {"PER", 1}, {"LOC", 2}}));
}

TEST(Entities, NoneKeepsEveryTokenAndItsWholeLabel) {
  EXPECT_EQ(groups({1, 2, 0}, {0, 1, 0}, Aggregation::none),
            (Groups{{"B-PER", 1}, {"I-PER", 1}, {"O", 1}}));
}

TEST(Entities, AWordHasOneLabel) {
  EXPECT_EQ(groups({1, 0, 0, 3}, {0, 1, 1, 0}, Aggregation::first),
            (Groups{{"PER", 3}, {"LOC", 1}}));
  EXPECT_EQ(groups({1, 0, 0, 3}, {0, 1, 1, 0}, Aggregation::average),
            (Groups{{"O", 3}, {"LOC", 1}}));
}

TEST(Entities, NothingGivesNothing) {
  EXPECT_TRUE(groups({}, {}, Aggregation::simple).empty());
  EXPECT_TRUE(groups({}, {}, Aggregation::max).empty());
}

class AnswersTest : public testing::Test {
 protected:
  std::vector<float> start_ = std::vector<float>(10, 0.0f);
  std::vector<float> end_ = std::vector<float>(10, 0.0f);
  std::vector<std::uint8_t> inside_ = std::vector<std::uint8_t>(10, 0);

  Answers best(const AnswerRules& rules) const {
    const std::vector<SegmentLogits> segments = {
        {.range = {0, 10}, .start = start_, .end = end_, .no_answer_start = 1, .no_answer_end = 1}};
    return best_answers(segments, inside_, rules);
  }
};

TEST_F(AnswersTest, AnEndBeforeItsStartIsNoAnswer) {
  start_[7] = 5;
  end_[2] = 5;
  end_[8] = 1;
  const auto answers = best({.top_k = 1, .max_tokens = 30});
  EXPECT_EQ(answers.spans[0].tokens.begin, 7);
  EXPECT_EQ(answers.spans[0].tokens.end, 9);
}

TEST_F(AnswersTest, SpansDoNotOverlapAndKeepToTheirLength) {
  start_[3] = 5;
  start_[4] = 4;
  end_[5] = 5;
  end_[9] = 4.5f;
  const auto answers = best({.top_k = 20, .max_tokens = 4});
  EXPECT_EQ(answers.spans[0].tokens.begin, 3);
  EXPECT_EQ(answers.spans[0].tokens.end, 6);
  std::vector<int> covered(10, 0);
  for (const auto& span : answers.spans) {
    EXPECT_LE(span.tokens.size(), 4);
    for (Index t = span.tokens.begin; t < span.tokens.end; ++t)
      ++covered[static_cast<std::size_t>(t)];
  }
  EXPECT_EQ(covered, std::vector<int>(10, 1));
}

TEST_F(AnswersTest, AnswersAreWholeWords) {
  start_[4] = 5;
  end_[5] = 5;
  inside_ = {0, 0, 0, 1, 1, 0, 1, 1, 0, 0};
  const auto answers = best({.top_k = 2, .max_tokens = 2});
  EXPECT_EQ(answers.spans[0].tokens.begin, 2);
  EXPECT_EQ(answers.spans[0].tokens.end, 8);
  EXPECT_TRUE(answers.spans[1].tokens.end <= 2 || answers.spans[1].tokens.begin >= 8);
}

TEST_F(AnswersTest, ScoresAreProbabilitiesWithTheOneOfNoAnswer) {
  // All spans of one token: Σ p(start)·p(end) over all pairs of tokens is 1 with "no answer".
  const auto answers = best({.top_k = 10, .max_tokens = 1});
  ASSERT_EQ(answers.spans.size(), 10u);
  const double one = 1.0 / (10 + std::exp(1.0));
  for (const auto& span : answers.spans) EXPECT_NEAR(span.score, one * one, 1e-8);
  EXPECT_NEAR(answers.none.score, std::exp(2.0) * one * one, 1e-7);
}

/// The middle of a span decides which segment speaks for it.
TEST(Answers, OfSeveralSegments) {
  std::vector<float> first(8, 0.0f), second(8, 0.0f), flat(8, 0.0f);
  first[6] = 9;   // token 6, which the second segment owns
  second[1] = 5;  // token 5, which the first one owns
  const std::vector<SegmentLogits> segments = {
      {.range = {0, 8}, .start = first, .end = flat, .no_answer_start = 3, .no_answer_end = 3},
      {.range = {4, 12}, .start = second, .end = flat, .no_answer_start = -1, .no_answer_end = 2}};
  const auto answers =
      best_answers(segments, std::vector<std::uint8_t>(12, 0), {.top_k = 1, .max_tokens = 1});
  EXPECT_EQ(answers.spans[0].tokens.begin, 0) << "neither is seen by the segment that owns it";
  EXPECT_EQ(answers.none.logit, 1.0f) << "the least of both";
}

TEST(Answers, WordsGoOnWhereNoSpaceOrSignSeparates) {
  const std::vector<CharacterSpan> offsets = {{0, 3}, {3, 5}, {6, 8}, {8, 9}, {9, 12}};
  EXPECT_EQ(begins_inside_word("Wien12 ok-nun", offsets),
            (std::vector<std::uint8_t>{0, 1, 0, 1, 0}));
}

}  // namespace
}  // namespace longformer::tasks::spans_test
