// Scores of spans, the loss of their links and what links them, against plain loops in double
// (span_testing.h).
//
// Reruns: tsan isa
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "core/memory.h"
#include "core/random.h"
#include "doubles.h"
#include "ops/gradients.h"
#include "ops/spans.h"
#include "span_testing.h"

namespace longformer::kernels::span_scores_test {
namespace {

using testing_spans::Doubles;

/// The largest difference divided by the largest expected value, or by 1; NaN for a NaN.
double difference(const Tensor& found, const Doubles& expected) {
  const Doubles values = doubles(found);
  EXPECT_EQ(values.size(), expected.size());
  double largest = 0, scale = 1;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double here = std::abs(values[i] - expected[i]);
    if (!(here <= largest)) largest = here;
    scale = std::max(scale, std::abs(expected[i]));
  }
  return largest / scale;
}

/// Random factors of the scores of spans, and the same in double.
struct SpanCase {
  std::vector<Index> counts;
  Tensor starts, ends, query, key;
  float scale = 0.3f;

  SpanCase(Index rows, Index widest, Index width) {
    std::uint64_t seed = 5;
    for (Index i = 0; i < rows; ++i) {
      seed = random_bits(seed, static_cast<std::uint64_t>(i));
      const Index most = std::min(widest, rows - i);
      // Often the most, sometimes none.
      counts.push_back(seed % 3 == 0 ? static_cast<Index>(seed / 3 % at(most + 1)) : most);
    }
    starts = random_normal_tensor({rows, 1}, 1, 1);
    ends = random_normal_tensor({rows, 1}, 1, 2);
    query = random_normal_tensor({rows, width}, 1, 3);
    key = random_normal_tensor({rows, width}, 1, 4);
  }

  SpanFactors factors() const { return {starts, ends, query, key, scale}; }
  testing_spans::Spans truth() const {
    return {counts,          query.columns(), static_cast<double>(scale),
            doubles(starts), doubles(ends),   doubles(query),
            doubles(key)};
  }
};

struct SpanSize {
  Index rows, widest, width;
};
/// Around the 64 rows of a band, and spans that are wider than it.
constexpr std::array<SpanSize, 12> kSpanSizes = {{{1, 1, 1},
                                                  {2, 30, 3},
                                                  {5, 2, 7},
                                                  {31, 30, 16},
                                                  {63, 30, 17},
                                                  {64, 1, 8},
                                                  {65, 30, 33},
                                                  {128, 65, 9},
                                                  {129, 64, 5},
                                                  {200, 100, 11},
                                                  {257, 30, 65},
                                                  {150, 0, 4}}};

TEST(SpanScores, EqualPlainLoops) {
  for (const auto& [rows, widest, width] : kSpanSizes) {
    for (const int threads : {1, 3}) {
      const SpanCase spans(rows, widest, width);
      const SpanTable table = SpanTable::of(spans.counts);
      Tensor scores({table.size(), 1}, DType::f32);
      span_scores(table, spans.factors(), scores, threads);
      EXPECT_TRUE(difference(scores, spans.truth().scores()) <= 1e-5) << rows << " " << widest;
    }
  }
}

TEST(SpanScores, OfFactorsInBf16EqualPlainLoops) {
  for (const auto& [rows, widest, width] : kSpanSizes) {
    SpanCase spans(rows, widest, width);
    for (Tensor* one : {&spans.query, &spans.key}) *one = one->to(DType::bf16);
    const SpanTable table = SpanTable::of(spans.counts);
    Tensor scores({table.size(), 1}, DType::f32);
    span_scores(table, spans.factors(), scores, 3);
    EXPECT_TRUE(difference(scores, spans.truth().scores()) <= 1e-5) << rows << " " << widest;
  }
}

TEST(SpanScores, GradientsEqualPlainLoopsWhateverWasThereBefore) {
  for (const auto& [rows, widest, width] : kSpanSizes) {
    for (const int threads : {1, 3}) {
      const SpanCase spans(rows, widest, width);
      const SpanTable table = SpanTable::of(spans.counts);
      const Tensor gradient = random_normal_tensor({table.size(), 1}, 1, 9);
      Tensor starts = random_normal_tensor({rows, 1}, 9, 9), ends = starts.to(DType::f32);
      Tensor query = random_normal_tensor({rows, width}, 9, 9),
             key = random_normal_tensor({rows, width}, 9, 8);
      ends = random_normal_tensor({rows, 1}, 9, 7);
      span_scores_backward(table, spans.factors(), gradient, {starts, ends, query, key}, threads);
      const auto expected = spans.truth().gradients(doubles(gradient));
      EXPECT_TRUE(difference(starts, expected.starts) <= 1e-5) << rows << " " << widest;
      EXPECT_TRUE(difference(ends, expected.ends) <= 1e-5) << rows << " " << widest;
      EXPECT_TRUE(difference(query, expected.query) <= 1e-5) << rows << " " << widest;
      EXPECT_TRUE(difference(key, expected.key) <= 1e-5) << rows << " " << widest;
    }
  }
}

/// Random links, and the same in double. Clusters: every third span has none.
struct LinkCase {
  Tensor mentions, start_query, end_query, start_key, end_key;
  std::vector<std::int32_t> clusters;
  float scale = 0.4f;

  LinkCase(Index count, Index width, float deviation = 1) {
    mentions = random_normal_tensor({count, 1}, deviation, 1);
    start_query = random_normal_tensor({count, width}, deviation, 2);
    end_query = random_normal_tensor({count, width}, deviation, 3);
    start_key = random_normal_tensor({count, width}, deviation, 4);
    end_key = random_normal_tensor({count, width}, deviation, 5);
    for (Index u = 0; u < count; ++u) {
      const std::uint64_t bits = random_bits(6, static_cast<std::uint64_t>(u));
      clusters.push_back(bits % 3 == 0 ? -1
                                       : static_cast<std::int32_t>(bits / 3 % (at(count) / 4 + 1)));
    }
  }

  SpanLinks links() const { return {mentions, start_query, end_query, start_key, end_key, scale}; }
  testing_spans::Links truth() const {
    return {start_key.columns(),  static_cast<double>(scale), doubles(mentions),
            doubles(start_query), doubles(end_query),         doubles(start_key),
            doubles(end_key)};
  }
};

/// Gradients with numbers in them that must not count.
struct Sent {
  Tensor mentions, start_query, end_query, start_key, end_key;

  explicit Sent(const LinkCase& links)
      : mentions(random_normal_tensor(links.mentions.shape(), 9, 1)),
        start_query(random_normal_tensor(links.start_query.shape(), 9, 2)),
        end_query(random_normal_tensor(links.start_query.shape(), 9, 3)),
        start_key(random_normal_tensor(links.start_query.shape(), 9, 4)),
        end_key(random_normal_tensor(links.start_query.shape(), 9, 5)) {}

  LinkGradients to() { return {mentions, start_query, end_query, start_key, end_key}; }
  std::array<const Tensor*, 5> all() const {
    return {&mentions, &start_query, &end_query, &start_key, &end_key};
  }
};

void expect_loss_and_gradients(const LinkCase& links, int threads) {
  constexpr double kScale = 0.125;
  Sent sent(links);
  const LinkGradients to = sent.to();
  const LossSum loss =
      antecedent_loss(links.links(), links.clusters, {.scale = kScale}, &to, threads);
  const auto truth = links.truth();
  auto expected = truth.zeros();
  const double sum = truth.loss(links.clusters, kScale, &expected);
  EXPECT_TRUE(std::abs(loss.sum - sum) <= 1e-5 * std::max(1.0, sum)) << loss.sum << " " << sum;
  EXPECT_EQ(loss.weight, static_cast<double>(links.links().size()));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(difference(*sent.all()[i], *expected.all()[i]) <= 2e-5) << "factor " << i;
  }
  const LossSum alone =
      antecedent_loss(links.links(), links.clusters, {.scale = kScale}, nullptr, threads);
  EXPECT_EQ(alone.sum, loss.sum);
}

TEST(AntecedentLoss, EqualsPlainLoopsAroundTheBlocksOf256) {
  for (const Index count : {0, 1, 2, 3, 17, 255, 256, 257, 515}) {
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(count);
      expect_loss_and_gradients(LinkCase(count, 7), threads);
    }
  }
}

TEST(AntecedentLoss, TruthHasTheGradientsOfItsCentralDifferences) {
  const LinkCase links(9, 3);
  auto truth = links.truth();
  auto expected = truth.zeros();
  truth.loss(links.clusters, 1, &expected);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < truth.all()[i]->size(); ++j) {
      double& value = (*truth.all()[i])[j];
      const double middle = value, step = 1e-5;
      value = middle + step;
      const double above = truth.loss(links.clusters, 1, nullptr);
      value = middle - step;
      const double below = truth.loss(links.clusters, 1, nullptr);
      value = middle;
      EXPECT_TRUE(std::abs((*expected.all()[i])[j] - (above - below) / (2 * step)) <= 1e-7);
    }
  }
}

TEST(AntecedentLoss, OfHugeScoresIsFinite) {
  // Scores of up to some thousands, far beyond what exp takes.
  expect_loss_and_gradients(LinkCase(40, 30, 12), 2);
}

TEST(AntecedentLoss, WithoutClustersIsThatOfNothing) {
  LinkCase links(20, 4);
  std::fill(links.clusters.begin(), links.clusters.end(), -1);
  expect_loss_and_gradients(links, 1);
  // Spans that all score −∞ nearly: nothing is certain.
  links.mentions = Tensor::from(std::vector<float>(20, -1e4f), {20, 1});
  EXPECT_TRUE(antecedent_loss(links.links(), links.clusters, {}, nullptr, 1).sum <= 1e-6);
}

/// Links of whole numbers, which floats add without error, so that equal scores are equal.
LinkCase whole_links(Index count) {
  LinkCase links(count, 2);
  std::uint64_t seed = 1;
  for (Tensor* one :
       {&links.mentions, &links.start_query, &links.end_query, &links.start_key, &links.end_key}) {
    std::vector<float> values;
    for (Index i = 0; i < one->size(); ++i) {
      values.push_back(static_cast<float>(random_bits(++seed, 0) % 3) - 1);
    }
    *one = Tensor::from(values, one->shape());
  }
  links.scale = 1;
  return links;
}

TEST(BestAntecedents, AreTheLatestOfTheHighestAndNothingAtZero) {
  std::int64_t ties = 0, nothing = 0;
  for (const Index count : {0, 1, 2, 30, 256, 257, 600}) {
    const LinkCase links = whole_links(count);
    const auto truth = links.truth();
    for (const int threads : {1, 3}) {
      const std::vector<Index> found = best_antecedents(links.links(), threads);
      ASSERT_EQ(std::ssize(found), count);
      for (Index u = 0; u < count; ++u) {
        Index best = -1;
        double highest = 0;
        for (Index v = 0; v < u; ++v) {
          const double score = truth.score(u, v);
          ties += score == highest ? 1 : 0;
          // Nothing wins at 0, and the latest of equal ones otherwise.
          if (score > highest || (score == highest && best >= 0)) {
            highest = score;
            best = v;
          }
        }
        nothing += best < 0 ? 1 : 0;
        ASSERT_EQ(found[at(u)], best) << count << " " << u;
      }
    }
  }
  EXPECT_GT(ties, 1000);
  EXPECT_GT(nothing, 10);
}

/// The most bytes that this process ever had in memory; 0 where the system does not tell.
std::size_t most_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  }
  return 0;
}

TEST(BestAntecedents, OfManySpansNeverHaveAllScoresInMemory) {
  // All scores are 1.6 GB, those of a block of spans 20 MB, and several times that with a
  // sanitizer.
  constexpr Index kCount = 20000;
  const LinkCase links(kCount, 1);
  const auto truth = links.truth();
  const std::size_t before = resident_bytes();
  const std::vector<Index> found = best_antecedents(links.links(), 2);
  const std::size_t most = most_resident_bytes();
  ASSERT_GT(most, 0u);
  EXPECT_LT(most, before + 400'000'000) << before;
  ASSERT_EQ(std::ssize(found), kCount);
  for (Index u = 1; u < kCount; u += 1111) {
    double highest = 0;
    for (Index v = 0; v < u; ++v) highest = std::max(highest, truth.score(u, v));
    ASSERT_LT(found[at(u)], u);
    const double score = found[at(u)] < 0 ? 0 : truth.score(u, found[at(u)]);
    EXPECT_TRUE(score >= highest - 1e-4) << u << ": " << score << ", expected " << highest;
  }
}

TEST(HighestRows, AreInOrderAndTheFirstOfEqualOnes) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  const Tensor scores = Tensor::from(std::vector<float>{1, 3, kNone, 2, 3, 2, -1, 2}, {8, 1});
  using Rows = std::vector<Index>;
  EXPECT_EQ(highest_rows(scores, 0), Rows{});
  EXPECT_EQ(highest_rows(scores, 1), Rows{1});
  EXPECT_EQ(highest_rows(scores, 4), (Rows{1, 3, 4, 5}));
  EXPECT_EQ(highest_rows(scores, 7), (Rows{0, 1, 3, 4, 5, 6, 7}));
  EXPECT_EQ(highest_rows(scores, 8), (Rows{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(rows_above_zero(scores, Rows{0, 2, 6, 7}), (Rows{0, 7}));
  EXPECT_EQ(highest_rows(Tensor::from(std::vector<float>(100, 0), {100, 1}), 3), (Rows{0, 1, 2}));
}

TEST(SpanKernels, GiveTheSameBitsAgain) {
  const SpanCase spans(300, 30, 24);
  const LinkCase links(600, 24);
  const SpanTable table = SpanTable::of(spans.counts);
  const Tensor gradient = random_normal_tensor({table.size(), 1}, 1, 9);
  std::vector<std::vector<float>> runs[2];
  for (auto& run : runs) {
    constexpr int threads = 4;
    Tensor scores({table.size(), 1}, DType::f32);
    span_scores(table, spans.factors(), scores, threads);
    Tensor starts({300, 1}, DType::f32), ends({300, 1}, DType::f32);
    Tensor query({300, 24}, DType::f32), key({300, 24}, DType::f32);
    span_scores_backward(table, spans.factors(), gradient, {starts, ends, query, key}, threads);
    Sent sent(links);
    const LinkGradients to = sent.to();
    antecedent_loss(links.links(), links.clusters, {}, &to, threads);
    for (const Tensor* one : {&scores, &starts, &ends, &query, &key})
      run.push_back(one->to_floats());
    for (const Tensor* one : sent.all()) run.push_back(one->to_floats());
  }
  EXPECT_EQ(runs[0], runs[1]);
}

TEST(SpanOps, SendTheGradientsOfTheLossToAllFactors) {
  const LinkCase links(33, 6);
  MemoryPool memory;
  Tape tape;
  const ops::Context context = {.memory = memory, .threads = 2, .tape = &tape};
  LinkCase tracked = links;
  for (Tensor* one : {&tracked.mentions, &tracked.start_query, &tracked.end_query,
                      &tracked.start_key, &tracked.end_key}) {
    Tape::track(*one);
  }
  const LossSum loss = ops::antecedent_loss(context, tracked.links(), links.clusters, {.scale = 2});
  const auto truth = links.truth();
  auto expected = truth.zeros();
  EXPECT_TRUE(std::abs(loss.sum - truth.loss(links.clusters, 2, &expected)) <= 1e-4);
  std::size_t i = 0;
  for (const Tensor* one : {&tracked.mentions, &tracked.start_query, &tracked.end_query,
                            &tracked.start_key, &tracked.end_key}) {
    EXPECT_TRUE(difference(one->gradient()->sum, *expected.all()[i++]) <= 2e-5);
  }
  EXPECT_ANY_THROW(ops::best_antecedents(context, tracked.links()));
}

}  // namespace
}  // namespace longformer::kernels::span_scores_test
