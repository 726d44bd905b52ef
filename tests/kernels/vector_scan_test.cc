// Vectors as bytes and their scan, against sums of integers in 64 bits and dot products in double;
// the best scores against a full sort.
//
// Reruns: tsan isa
#include "kernels/vector_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/random.h"

namespace longformer::kernels::vector_scan_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Around the numbers of elements that vectors of every kind hold.
constexpr std::array<Index, 13> kWidths = {1, 2, 7, 8, 31, 33, 63, 64, 65, 383, 384, 385, 1000};
/// 1,000 vectors are several blocks of a scan where they are wide.
constexpr std::array<Index, 5> kSizes = {0, 1, 2, 5, 1000};

std::vector<float> normal_vector(Index width, float deviation, std::uint64_t seed) {
  std::vector<float> vector(at(width));
  for (Index c = 0; c < width; ++c) {
    vector[at(c)] = deviation * random_normal(seed, static_cast<std::uint64_t>(c));
  }
  return vector;
}

/// Any bytes, −128 among them, with a scale that differs from vector to vector.
ByteVectors random_bytes(Index width, Index size) {
  ByteVectors vectors;
  vectors.width = width;
  std::vector<std::int8_t> bytes(at(width));
  for (Index i = 0; i < size; ++i) {
    for (Index c = 0; c < width; ++c) {
      const auto bits = random_bits(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(c));
      bytes[at(c)] = static_cast<std::int8_t>(static_cast<int>(bits % 256) - 128);
    }
    vectors.append(bytes, random_uniform(9, static_cast<std::uint64_t>(i)));
  }
  return vectors;
}

std::vector<float> scores_of(const ByteVectors& vectors, const std::vector<float>& query,
                             int threads) {
  std::vector<float> scores(at(vectors.size()), kNaN);
  scan(vectors, query, scores, threads);
  return scores;
}

/// The score of vector i, its integers added in 64 bits.
float reference_score(const ByteVectors& vectors, Index i, const std::vector<float>& query) {
  const IntegerQuery integers = integer_query(query);
  std::int64_t sum = 0;
  for (Index c = 0; c < vectors.width; ++c) {
    sum += std::int64_t{vectors.bytes[at(i * vectors.width + c)]} * integers.values[at(c)];
  }
  const double scale = double{vectors.scales[at(i)]} * double{integers.scale};
  return static_cast<float>(static_cast<double>(sum) * scale);
}

TEST(VectorScan, EqualsSumsOfIntegersWithAnyNumberOfThreads) {
  for (const Index width : kWidths) {
    const std::vector<float> query = normal_vector(width, 1, 1);
    for (const Index size : kSizes) {
      const ByteVectors vectors = random_bytes(width, size);
      ASSERT_EQ(vectors.size(), size);
      for (const int threads : {1, 2, 3}) {
        const std::vector<float> scores = scores_of(vectors, query, threads);
        for (Index i = 0; i < size; ++i) {
          ASSERT_EQ(scores[at(i)], reference_score(vectors, i, query))
              << width << " " << size << " " << i << " " << threads;
        }
      }
    }
  }
}

TEST(VectorScan, ErrorIsWithinTheBoundOfTheScales) {
  for (const Index width : kWidths) {
    for (const float deviation : {1e-15f, 1.0f, 1e15f}) {
      const std::vector<float> query = normal_vector(width, deviation, 2);
      const double t = double{integer_query(query).scale};
      ByteVectors vectors;
      vectors.width = width;
      vectors.reserve(50);
      std::vector<std::vector<float>> exact;
      for (std::uint64_t i = 0; i < 50; ++i) {
        exact.push_back(normal_vector(width, deviation, 10 + i));
        vectors.append(exact.back());
      }
      const std::vector<float> scores = scores_of(vectors, query, 1);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        double dot = 0, query_sum = 0, vector_sum = 0, product_sum = 0;
        for (std::size_t c = 0; c < query.size(); ++c) {
          const double x = double{exact[i][c]}, y = double{query[c]};
          dot += x * y;
          query_sum += std::abs(y);
          vector_sum += std::abs(x);
          product_sum += std::abs(x * y);
        }
        const double s = double{vectors.scales[i]};
        const double bound = s / 2 * query_sum + t / 2 * vector_sum +
                             static_cast<double>(width) * s * t / 4 + 1e-6 * product_sum;
        EXPECT_TRUE(std::abs(double{scores[i]} - dot) <= bound) << width << " " << deviation;
      }
    }
  }
}

/// Products of the largest magnitudes at a width where they come closest to the end of 32 bits.
TEST(VectorScan, LargestSumsDoNotOverflow) {
  for (const Index width : {Index{384}, Index{512}, Index{513}, Index{65535}, Index{65536}}) {
    for (const bool alternates : {false, true}) {
      ByteVectors vectors;
      vectors.width = width;
      std::vector<float> query(at(width), 1.0f);
      std::vector<std::int8_t> like(at(width), 127), unlike(at(width), -127);
      if (alternates) {
        for (std::size_t c = 1; c < query.size(); c += 2) {
          query[c] = -1;
          std::swap(like[c], unlike[c]);
        }
      }
      vectors.append(like, 1);
      vectors.append(unlike, 1);
      if (!alternates) vectors.append(std::vector<std::int8_t>(at(width), -128), 1);
      const std::vector<float> scores = scores_of(vectors, query, 1);
      for (Index i = 0; i < vectors.size(); ++i) {
        EXPECT_EQ(scores[at(i)], reference_score(vectors, i, query)) << width << " " << i;
      }
      const float expected = 127 * static_cast<float>(width);
      EXPECT_TRUE(std::abs(scores[0] - expected) <= 1e-6f * expected) << width;
      EXPECT_TRUE(std::abs(scores[1] + expected) <= 1e-6f * expected) << width;
    }
  }
}

TEST(VectorScan, ZerosScoreZero) {
  for (const Index width : {Index{3}, Index{384}}) {
    const std::vector<float> zeros(at(width), 0.0f), query = normal_vector(width, 1, 3);
    ByteVectors vectors;
    vectors.width = width;
    vectors.append(zeros);
    vectors.append(query);
    EXPECT_EQ(vectors.scales[0], 0.0f);
    EXPECT_EQ(std::ranges::count(vectors.row(0), 0), width);
    const std::vector<float> scores = scores_of(vectors, query, 1);
    EXPECT_EQ(scores[0], 0.0f);
    EXPECT_TRUE(scores[1] > 0);
    EXPECT_EQ(scores_of(vectors, zeros, 1), std::vector<float>(2, 0.0f));
    EXPECT_EQ(integer_query(zeros).scale, 0.0f);
  }
}

/// A score in the range of fp32 although the product of the scales is hardly in it.
TEST(VectorScan, SmallScores) {
  const std::vector<float> vector(384, 1e-18f), query(384, 1e-20f);
  ByteVectors vectors;
  vectors.width = 384;
  vectors.append(vector);
  EXPECT_TRUE(std::abs(scores_of(vectors, query, 1)[0] / 3.84e-36f - 1) <= 1e-5f);
}

TEST(VectorScan, BytesAreNearestToTheVector) {
  for (const Index width : kWidths) {
    for (const float deviation : {1e-30f, 1.0f, 1e30f}) {
      const std::vector<float> vector = normal_vector(width, deviation, 4);
      std::vector<std::int8_t> bytes(at(width));
      const float scale = quantize(vector, bytes);
      float highest = 0;
      int most = 0;
      for (std::size_t c = 0; c < vector.size(); ++c) {
        highest = std::max(highest, std::abs(vector[c]));
        most = std::max(most, std::abs(int{bytes[c]}));
        const double rest = double{vector[c]} - double{scale} * bytes[c];
        // The half of a step, and the rounding of the scale in fp32 127 steps away.
        EXPECT_TRUE(std::abs(rest) <= (0.5 + 1e-5) * double{scale}) << width << " " << c;
      }
      EXPECT_TRUE(std::abs(scale * 127 - highest) <= 1e-6f * highest) << width;
      EXPECT_EQ(most, 127);
    }
  }
}

struct RoundingCase {
  std::vector<float> vector;
  float scale;
  std::vector<std::int8_t> bytes;
};

TEST(VectorScan, KnownBytes) {
  const float least = std::numeric_limits<float>::denorm_min();
  const std::vector<RoundingCase> cases = {
      {{127, -127, 0, 1.4f, 1.6f, -1.4f, -1.6f}, 1, {127, -127, 0, 1, 2, -1, -2}},
      {{-254, 1.1f, -0.9f}, 2, {-127, 1, 0}},
      {{0, -0.0f}, 0, {0, 0}},
      {{}, 0, {}},
      // Too small for a scale; and one that is rounded to the least one there is.
      {{least, -least}, 0, {0, 0}},
      {{180 * least, -3 * least}, least, {127, -3}},
      {{std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()},
       std::numeric_limits<float>::max() / 127,
       {127, -127}}};
  for (const auto& [vector, scale, expected] : cases) {
    std::vector<std::int8_t> bytes(vector.size(), 77);
    EXPECT_EQ(quantize(vector, bytes), scale);
    EXPECT_EQ(bytes, expected);
  }
}

TEST(VectorScan, QueriesAreAsFineAsTheirWidthAllows) {
  const std::vector<std::pair<Index, Index>> levels = {
      {1, 32767}, {384, 32767}, {512, 32767}, {513, 32704}, {65536, 255}, {kWidestQuery, 1}};
  for (const auto& [width, expected] : levels) {
    EXPECT_EQ(query_levels(width), expected) << width;
    EXPECT_LE(128 * width * query_levels(width), Index{std::numeric_limits<std::int32_t>::max()});
  }
  const std::vector<float> query = normal_vector(384, 1, 5);
  const IntegerQuery integers = integer_query(query);
  Index most = 0;
  for (std::size_t c = 0; c < query.size(); ++c) {
    most = std::max<Index>(most, std::abs(Index{integers.values[c]}));
    const double rest = double{query[c]} - double{integers.scale} * integers.values[c];
    EXPECT_TRUE(std::abs(rest) <= 0.51 * double{integers.scale}) << c;
  }
  EXPECT_EQ(most, 32767);
}

TEST(VectorScan, StoredBytesComeBackAsTheyWere) {
  ByteVectors first, second;
  first.width = second.width = 65;
  for (std::uint64_t i = 0; i < 3; ++i) first.append(normal_vector(65, 1, 20 + i));
  for (Index i = 0; i < 3; ++i) second.append(first.row(i), first.scales[at(i)]);
  EXPECT_EQ(first.bytes, second.bytes);
  EXPECT_EQ(first.scales, second.scales);
}

/// Result of a full sort; a NaN counts as −∞.
std::vector<Index> best_of_a_sort(const std::vector<float>& scores, Index count) {
  const auto rank = [&](Index i) { return std::isnan(scores[at(i)]) ? -kInfinity : scores[at(i)]; };
  std::vector<Index> indices(scores.size());
  std::iota(indices.begin(), indices.end(), Index{0});
  std::ranges::stable_sort(indices, [&](Index a, Index b) { return rank(a) > rank(b); });
  indices.resize(std::min(indices.size(), at(count)));
  return indices;
}

TEST(VectorScan, BestEqualsAFullSort) {
  using Make = float (*)(std::uint64_t i);
  const std::vector<std::pair<const char*, Make>> kinds = {
      {"any", [](std::uint64_t i) { return random_normal(6, i); }},
      {"ties", [](std::uint64_t i) { return static_cast<float>(random_bits(7, i) % 4); }},
      {"equal", [](std::uint64_t) { return 1.0f; }},
      {"zeros of both signs", [](std::uint64_t i) { return i % 2 == 0 ? -0.0f : 0.0f; }},
      {"rising", [](std::uint64_t i) { return static_cast<float>(i); }},
      {"falling", [](std::uint64_t i) { return -static_cast<float>(i); }},
      {"lowest", [](std::uint64_t) { return -kInfinity; }},
      {"no numbers", [](std::uint64_t) { return kNaN; }},
      {"some of all", [](std::uint64_t i) {
         constexpr std::array<float, 5> values = {-kInfinity, kNaN, -1, kInfinity, kNaN};
         return values[random_bits(8, i) % 5];
       }}};
  for (const auto& [name, make] : kinds) {
    for (const std::uint64_t size : {0, 1, 2, 5, 1000, 1024, 1025, 5000}) {
      std::vector<float> scores;
      for (std::uint64_t i = 0; i < size; ++i) scores.push_back(make(i));
      for (const Index count : {0, 1, 2, 5, 10, 511, 512, 1000, 1024, 4999, 5000, 5001}) {
        EXPECT_EQ(best(scores, count), best_of_a_sort(scores, count))
            << name << " " << size << " " << count;
      }
      constexpr Index kAll = std::numeric_limits<Index>::max();
      EXPECT_EQ(best(scores, kAll), best_of_a_sort(scores, kAll)) << name << " " << size;
    }
  }
}

}  // namespace
}  // namespace longformer::kernels::vector_scan_test
