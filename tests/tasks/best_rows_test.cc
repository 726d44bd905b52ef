// The best rows by exact scores against a full sort, and how many were looked at.
#include "tasks/search/best_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/random.h"

namespace longformer::tasks::best_rows_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Scores and bounds that are up to `slack` above them.
struct Rows {
  std::vector<float> exact, bounds;
  Index looked_at = 0;

  Rows(Index count, float slack, std::uint64_t levels, std::uint64_t seed) {
    for (Index i = 0; i < count; ++i) {
      // Few levels make many equal scores.
      const auto level = static_cast<float>(random_bits(seed, at(i)) % levels);
      exact.push_back(level / static_cast<float>(levels));
      const auto above = static_cast<float>(random_bits(seed + 1, at(i)) % 1000) / 1000;
      bounds.push_back(exact.back() + slack * above);
    }
  }

  BestRows order() {
    return {bounds, [this](std::span<const Index> rows) {
              looked_at += std::ssize(rows);
              std::vector<float> scores;
              for (const Index row : rows) scores.push_back(exact[at(row)]);
              return scores;
            }};
  }

  std::vector<Index> sorted() const {
    std::vector<Index> rows(exact.size());
    std::iota(rows.begin(), rows.end(), Index{0});
    std::erase_if(rows, [this](Index row) { return bounds[at(row)] == -kInfinity; });
    std::stable_sort(rows.begin(), rows.end(),
                     [this](Index a, Index b) { return exact[at(a)] > exact[at(b)]; });
    return rows;
  }
};

std::vector<Index> all_of(BestRows order, Index each) {
  std::vector<Index> all;
  for (std::vector<Index> some = order.next(each); !some.empty(); some = order.next(each)) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

TEST(BestRows, ComeInTheOrderOfTheirExactScores) {
  for (const Index count : {0, 1, 7, 300}) {
    for (const float slack : {0.0f, 0.01f, 0.3f, 5.0f}) {
      for (const std::uint64_t levels : {2u, 20u, 100000u}) {
        for (const Index each : {1, 3, 100, 1000}) {
          Rows rows(count, slack, levels, 3);
          ASSERT_EQ(all_of(rows.order(), each), rows.sorted())
              << count << " " << slack << " " << levels << " " << each;
          ASSERT_EQ(rows.looked_at, count);
        }
      }
    }
  }
}

TEST(BestRows, OnlyThoseInQuestionAreLookedAt) {
  Rows rows(10000, 0.01f, 1u << 30, 5);
  BestRows order = rows.order();
  const std::vector<Index> best = order.next(100), wanted = rows.sorted();
  EXPECT_TRUE(std::equal(best.begin(), best.end(), wanted.begin()));
  // A bound 0.01 too high lets in a hundredth of the rows.
  EXPECT_LE(rows.looked_at, 250);
  EXPECT_TRUE(order.next(0).empty());
}

TEST(BestRows, LeftOutRowsStayOutAndUnknownBoundsAreLookedAt) {
  Rows rows(50, 0.1f, 1000, 7);
  for (Index row = 0; row < 50; row += 3) rows.bounds[at(row)] = -kInfinity;
  for (Index row = 1; row < 50; row += 6) rows.bounds[at(row)] = std::nanf("");
  for (const Index each : {1, 50}) ASSERT_EQ(all_of(rows.order(), each), rows.sorted());
}

TEST(BestRows, WhereAllAreInQuestionSomeAreLookedAt) {
  Rows rows(10000, 0, 1u << 30, 11);
  for (float& bound : rows.bounds) bound += 5;
  BestRows order = rows.order();
  EXPECT_EQ(std::ssize(order.next(10)), 10);
  EXPECT_LE(rows.looked_at, 1100);
  EXPECT_EQ(std::ssize(order.next(std::numeric_limits<Index>::max())), 10000 - 10);
  EXPECT_EQ(rows.looked_at, 10000);
  EXPECT_TRUE(order.next(1).empty());
}

TEST(BestRows, NaNComesLast) {
  Rows rows(20, 0.1f, 1000, 9);
  rows.exact[4] = std::nanf("");
  const std::vector<Index> all = all_of(rows.order(), 6);
  ASSERT_EQ(std::ssize(all), 20);
  EXPECT_EQ(all.back(), 4);
}

}  // namespace
}  // namespace longformer::tasks::best_rows_test
