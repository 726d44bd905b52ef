// Links that are found with bounds against those of all scores, and the bounds against scores in
// double.
//
// Reruns: tsan isa
#include "kernels/link_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/random.h"
#include "kernels/link_bounds.h"

namespace longformer::kernels::link_search_test {
namespace {

/// Queries and keys vary mostly along `rank` directions, as those of a trained head do.
struct HeadShape {
  Index count, width, rank;
  /// Deviation along all directions, and the score of mentions in the mean.
  float noise, mention;
  float scale = 0.2f;
};

Tensor rows_along(const HeadShape& shape, std::uint64_t seed) {
  Tensor rows = random_normal_tensor({shape.count, shape.width}, shape.noise, seed);
  const Tensor parts = random_normal_tensor({shape.count, shape.rank}, 1, seed + 1);
  const Tensor directions = random_normal_tensor({shape.rank, shape.width}, 1, seed + 2);
  for (Index row = 0; row < shape.count; ++row) {
    auto* to = rows.data<float>() + row * shape.width;
    for (Index r = 0; r < shape.rank; ++r) {
      const float part = parts.data<float>()[row * shape.rank + r];
      for (Index c = 0; c < shape.width; ++c) {
        to[c] += part * directions.data<float>()[r * shape.width + c];
      }
    }
  }
  return rows;
}

struct Head {
  Tensor mentions, start_query, end_query, start_key, end_key;
  float scale;

  explicit Head(const HeadShape& shape)
      : mentions(random_normal_tensor({shape.count, 1}, 1, 1)),
        start_query(rows_along(shape, 10)),
        end_query(rows_along(shape, 20)),
        start_key(rows_along(shape, 30)),
        end_key(rows_along(shape, 40)),
        scale(shape.scale) {
    for (Index u = 0; u < shape.count; ++u) mentions.data<float>()[u] += shape.mention;
  }

  /// Its queries and keys in that dtype.
  Head in(DType dtype) const {
    Head other = *this;
    for (Tensor* one : {&other.start_query, &other.end_query, &other.start_key, &other.end_key}) {
      *one = one->to(dtype);
    }
    return other;
  }

  std::vector<Tensor*> all() { return {&mentions, &start_query, &end_query, &start_key, &end_key}; }
  SpanLinks links() const { return {mentions, start_query, end_query, start_key, end_key, scale}; }
};

double length_of(const Tensor& start, const Tensor& end, Index row) {
  double sum = 0;
  for (const Tensor* half : {&start, &end}) {
    for (Index c = 0; c < half->columns(); ++c) {
      const auto value = static_cast<double>(half->data<float>()[row * half->columns() + c]);
      sum += value * value;
    }
  }
  return std::sqrt(sum);
}

double score_of(const SpanLinks& links, Index u, Index v) {
  const Index width = links.start_key.columns();
  double sum = 0;
  for (Index c = 0; c < width; ++c) {
    for (const auto& [query, key] :
         {std::pair(&links.start_query, &links.start_key), {&links.end_query, &links.end_key}}) {
      sum += static_cast<double>(query->data<float>()[u * width + c]) *
             static_cast<double>(key->data<float>()[v * width + c]);
    }
  }
  const auto* mentions = links.mentions.data<float>();
  return static_cast<double>(links.scale) * sum + static_cast<double>(mentions[u]) +
         static_cast<double>(mentions[v]);
}

/// Returns the share of links that were computed.
double expect_same_links_in(const Head& head, Index directions) {
  const std::vector<Index> expected = unbounded_antecedents(head.links(), 1);
  EXPECT_EQ(unbounded_antecedents(head.links(), 2), expected);
  double share = 1;
  for (const int threads : {1, 2}) {
    LinkCounts counts;
    EXPECT_EQ(bounded_antecedents(head.links(), directions, threads, &counts), expected);
    const Index count = head.links().size();
    EXPECT_EQ(counts.all, count * std::max<Index>(0, count - 1) / 2);
    EXPECT_LE(counts.computed, counts.all);
    if (counts.all > 0) {
      share = static_cast<double>(counts.computed) / static_cast<double>(counts.all);
    }
  }
  return share;
}

/// In fp32 and in bf16; the larger share of links.
double expect_same_links(const Head& head, Index directions) {
  return std::max(expect_same_links_in(head, directions),
                  expect_same_links_in(head.in(DType::bf16), directions));
}

TEST(BoundedAntecedents, AreThoseOfAllScores) {
  Index pruned = 0;
  for (const Index count : {0, 1, 257, 1024, 1025, 1536, 2049}) {
    for (const Index width : {7, 33}) {
      for (const Index directions : {1, 5, 200}) {
        for (const float mention : {-4.0f, 0.0f}) {
          for (const float scale : {0.2f, -0.1f}) {
            SCOPED_TRACE(testing::Message()
                         << count << " spans, width " << width << ", directions " << directions
                         << ", mentions " << mention << ", scale " << scale);
            const Head head({count, width, 2, 0.1f, mention, scale});
            pruned += expect_same_links(head, directions) < 0.7 ? 1 : 0;
          }
        }
      }
    }
  }
  EXPECT_GT(pruned, 20);
}

TEST(BoundedAntecedents, OfManySpansAreMostlyNotComputed) {
  const Head head({6000, 48, 4, 0.05f, -3});
  EXPECT_LT(expect_same_links(head, 8), 0.1);
}

/// Numbers of which all scores are whole, so that many are equal and many 0.
TEST(BoundedAntecedents, AreTheLatestOfEqualScores) {
  for (const Index width : {2, 9}) {
    for (const float mention : {-2.0f, -1.0f}) {
      Head head({1536, width, 1, 0, mention, 1});
      for (Tensor* one : head.all()) {
        for (Index i = 0; i < one->size(); ++i) {
          float& value = one->data<float>()[i];
          value = std::clamp(std::round(value), -2.0f, 1.0f);
        }
      }
      expect_same_links(head, 4);
    }
  }
}

/// Spans of which many are nearly alike: rounding decides which of their links is the best.
TEST(BoundedAntecedents, AreAlikeWhereRoundingDecides) {
  for (const float difference : {0.0f, 1e-7f, 1e-6f, 1e-4f}) {
    for (const Index width : {5, 100}) {
      SCOPED_TRACE(testing::Message() << difference << ", width " << width);
      Head head({2304, width, 3, 0.1f, -2});
      std::uint64_t seed = 50;
      for (Tensor* one : head.all()) {
        const Tensor noise = random_normal_tensor(one->shape(), difference, ++seed);
        for (Index i = 0; i < one->size(); ++i) {
          const Index repeated = i % (20 * one->columns());
          one->data<float>()[i] = one->data<float>()[repeated] + noise.data<float>()[i];
        }
      }
      expect_same_links(head, 8);
    }
  }
}

/// The scores of all spans in double, for spans whose links are not near each other.
TEST(UnboundedAntecedents, AreTheBestInDouble) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Index count : {1, 2, 255, 256, 257, 700}) {
      const Head drawn({count, 33, 4, 0.3f, -2}), given = drawn.in(dtype);
      const Head head = given.in(DType::f32);
      const std::vector<Index> found = unbounded_antecedents(given.links(), 2);
      Index linked = 0;
      for (Index u = 0; u < count; ++u) {
        double highest = 0;
        Index best = -1;
        for (Index v = 0; v < u; ++v) {
          const double score = score_of(head.links(), u, v);
          if (score > highest) best = v;
          highest = std::max(highest, score);
        }
        const double own = found[at(u)] < 0 ? 0 : score_of(head.links(), u, found[at(u)]);
        EXPECT_TRUE(own >= highest - 1e-4 * std::max(1.0, highest))
            << u << " " << found[at(u)] << " " << best;
        linked += best >= 0 ? 1 : 0;
      }
      EXPECT_GE(linked, count / 2);
    }
  }
}

/// Numbers that are zeros for products of bf16, and others that make up for them.
TEST(BoundedAntecedents, OfDenormalNumbersAreThoseOfAllScores) {
  Head head({1536, 9, 2, 0.1f, -2});
  const auto times = [](Tensor& rows, float factor) {
    for (Index i = 0; i < rows.size(); ++i) rows.data<float>()[i] *= factor;
  };
  times(head.start_query, 1e-40f);
  times(head.end_query, 1e-40f);
  times(head.start_key, 1e34f);
  times(head.end_key, 1e34f);
  times(head.mentions, 1e-6f);
  const std::vector<Index> expected = unbounded_antecedents(head.links(), 1);
  EXPECT_GT(std::ranges::count_if(expected, [](Index before) { return before >= 0; }), 500);
  expect_same_links_in(head, 4);
}

TEST(BoundedAntecedents, OfNumbersThatAreNotFiniteAreThoseOfAllScores) {
  constexpr float kHuge = 1e30f, kNone = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  for (const float value : {kHuge, kNone, kInfinite, -kInfinite, 1e-42f}) {
    for (std::size_t which = 0; which < 5; ++which) {
      for (const Index row : {0, 1300}) {
        SCOPED_TRACE(testing::Message() << value << " in " << which << " of span " << row);
        Head head({1536, 9, 2, 0.1f, -2});
        head.all()[which]->data<float>()[row * head.all()[which]->columns()] = value;
        expect_same_links(head, 4);
      }
    }
  }
}

double number(BFloat16 value) { return static_cast<double>(static_cast<float>(value)); }

TEST(LinkBounds, HoldForAllDirections) {
  double loosest = 0;
  for (const float noise : {0.0f, 1e-3f, 1.0f}) {
    for (const Index directions : {1, 2, 5, 40}) {
      SCOPED_TRACE(testing::Message() << noise << ", directions " << directions);
      const Head drawn({200, 17, 4, noise, -1, -0.3f});
      const DType dtype = directions == 5 ? DType::bf16 : DType::f32;
      const Head given = drawn.in(dtype), head = given.in(DType::f32);
      const LinkBounds bounds = link_bounds(given.links(), directions, 2);
      const SpanLinks links = head.links();
      for (Index u = 0; u < 200; ++u) {
        for (Index v = 0; v < 200; ++v) {
          double upper = static_cast<double>(head.mentions.data<float>()[u]);
          for (Index c = 0; c < bounds.width(); ++c) {
            upper += number(bounds.queries.data<BFloat16>()[u * bounds.width() + c]) *
                     number(bounds.keys.data<BFloat16>()[v * bounds.width() + c]);
          }
          const double slack = bounds.slack(u, v);
          const double margin = bounds.margins[at(u)], score = score_of(links, u, v);
          ASSERT_LE(score, upper + margin) << u << " " << v;
          ASSERT_GE(score, upper - 2 * slack - margin) << u << " " << v;
          const double lengths = length_of(links.start_query, links.end_query, u) *
                                 length_of(links.start_key, links.end_key, v);
          if (noise == 0 && directions == 40) {
            loosest = std::max(loosest, (slack + margin) / (0.3 * lengths));
          }
        }
      }
    }
  }
  // Directions that are all there leave nothing but rounding to bf16.
  EXPECT_LE(loosest, 1.1 * 0x1p-7);
  EXPECT_GT(loosest, 0);
}

}  // namespace
}  // namespace longformer::kernels::link_search_test
