// Attention of a decoder to keys that it keeps, against a sum in double precision.
//
// Reruns: tsan isa
#include "kernels/attention/few_queries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "attention_training_testing.h"
#include "core/random.h"

namespace longformer::kernels::few_queries_test {
namespace {

struct Shape4 {
  Index heads, head_size;
  std::vector<Index> queries, keys;
};

class FewQueries {
 public:
  FewQueries(const Shape4& shape, DType dtype, bool masks) : shape_(shape) {
    Index queries = 0, rows = 3;
    for (std::size_t s = 0; s < shape.keys.size(); ++s) {
      queries += shape.queries[s];
      rows += shape.keys[s] + 2;
    }
    query_ = random({shape.heads, queries, shape.head_size}, 1, dtype);
    keys_ = random({shape.heads, rows, shape.head_size}, 2, dtype);
    values_ = random({shape.heads, rows, shape.head_size}, 3, dtype);
    Index query = 0, key = 3;
    for (std::size_t s = 0; s < shape.keys.size(); ++s) {
      auto& mask = masks_.emplace_back(static_cast<std::size_t>(shape.keys[s]), 1);
      if (masks) {
        for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = random_bits(s, i) % 3 > 0 ? 1 : 0;
        // A whole step without a visible key.
        if (mask.size() > 300) std::fill_n(mask.begin() + 128, 128, 0);
      }
      sources_.push_back({.query_begin = query,
                          .query_count = shape.queries[s],
                          .keys = &keys_,
                          .values = &values_,
                          .key_begin = key,
                          .key_count = shape.keys[s],
                          .visible = nullptr});
      query += shape.queries[s];
      key += shape.keys[s] + 2;
    }
    for (std::size_t s = 0; s < sources_.size() && masks; ++s)
      sources_[s].visible = masks_[s].data();
  }

  Tensor run(int threads) const {
    Tensor out({query_.dimension(1), shape_.heads * shape_.head_size}, query_.dtype());
    attend_few_queries(query_, sources_, out, threads);
    return out;
  }

  void expect_right(double tolerance) const {
    const std::vector<float> found = run(2).to_floats();
    for (const KeySource& source : sources_) {
      for (Index q = 0; q < source.query_count; ++q) {
        for (Index h = 0; h < shape_.heads; ++h)
          check(found, source, source.query_begin + q, h, tolerance);
      }
    }
  }

  const std::vector<KeySource>& sources() const { return sources_; }
  std::vector<KeySource>& sources() { return sources_; }
  Tensor& keys() { return keys_; }
  Tensor& values() { return values_; }

 private:
  static Tensor random(const std::vector<Index>& shape, std::uint64_t seed, DType dtype) {
    Tensor tensor(shape, DType::f32);
    for (Index i = 0; i < tensor.size(); ++i) {
      const double unit =
          static_cast<double>(random_bits(seed, static_cast<std::uint64_t>(i)) >> 11) * 0x1p-53;
      tensor.data<float>()[i] = static_cast<float>(4 * unit - 2);
    }
    return tensor.to(dtype);
  }

  void check(const std::vector<float>& found, const KeySource& source, Index query, Index head,
             double tolerance) const {
    const auto q = query_.to_floats(), k = keys_.to_floats(), v = values_.to_floats();
    const Index d = shape_.head_size;
    const auto at3 = [d](const std::vector<float>& all, const Tensor& of, Index h, Index row,
                         Index c) {
      return static_cast<double>(
          all[static_cast<std::size_t>((h * of.dimension(1) + row) * d + c)]);
    };
    std::vector<double> scores;
    double highest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (Index key = 0; key < source.key_count; ++key) {
      double score = 0;
      for (Index c = 0; c < d; ++c) {
        score += at3(q, query_, head, query, c) * at3(k, keys_, head, source.key_begin + key, c);
      }
      score /= std::sqrt(static_cast<double>(d));
      if (source.visible != nullptr && source.visible[key] == 0) {
        score = -std::numeric_limits<double>::infinity();
      }
      highest = std::max(highest, score);
      scores.push_back(score);
    }
    for (double& score : scores) sum += score = std::isinf(highest) ? 0 : std::exp(score - highest);
    for (Index c = 0; c < d; ++c) {
      double expected = 0;
      for (Index key = 0; key < source.key_count; ++key) {
        expected += scores[static_cast<std::size_t>(key)] *
                    at3(v, values_, head, source.key_begin + key, c);
      }
      if (sum > 0) expected /= sum;
      const double value = found[static_cast<std::size_t>((query * shape_.heads + head) * d + c)];
      ASSERT_TRUE(std::abs(value - expected) <= tolerance)
          << "query " << query << ", head " << head << ": " << value << " instead of " << expected;
    }
  }

  Shape4 shape_;
  Tensor query_, keys_, values_;
  std::vector<std::vector<std::uint8_t>> masks_;
  std::vector<KeySource> sources_;
};

const std::vector<Shape4> kShapes = {
    {1, 64, {1}, {1}},    {2, 64, {1, 4, 2}, {127, 128, 129}}, {3, 8, {3, 1}, {5, 400}},
    {1, 80, {5}, {257}},  {2, 33, {7, 1}, {31, 64}},           {1, 1, {2}, {130}},
    {12, 64, {8}, {513}}, {2, 128, {4, 6}, {1, 300}},
};

TEST(FewQueries, EqualTheReference) {
  for (const Shape4& shape : kShapes) {
    for (const bool masks : {false, true}) {
      SCOPED_TRACE(testing::Message()
                   << shape.heads << " x " << shape.head_size << (masks ? " masked" : ""));
      FewQueries(shape, DType::f32, masks).expect_right(2e-5);
      FewQueries(shape, DType::bf16, masks).expect_right(1.2e-2);
    }
  }
}

TEST(FewQueries, ARowDoesNotDependOnOthers) {
  FewQueries work({2, 64, {7}, {333}}, DType::f32, true);
  const std::vector<float> together = work.run(2).to_floats();
  const KeySource all = work.sources()[0];
  work.sources().clear();
  for (Index q = 0; q < all.query_count; ++q) {
    KeySource one = all;
    one.query_begin = q;
    one.query_count = 1;
    work.sources().push_back(one);
  }
  EXPECT_EQ(work.run(1).to_floats(), together);
}

TEST(FewQueries, NoVisibleKeyGivesZerosAndNaNShows) {
  FewQueries work({1, 64, {2, 1}, {200, 20}}, DType::f32, false);
  const std::vector<std::uint8_t> none(200, 0);
  work.sources()[0].visible = none.data();
  const std::vector<float> blind = work.run(1).to_floats();
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(blind[i], 0.0f);
  EXPECT_NE(blind[130], 0.0f);
  work.sources()[0].visible = nullptr;
  const std::vector<float> sound = work.run(1).to_floats();
  for (const std::uint32_t bits : {0x7fc00000u, 0x7fffffffu, 0xffffffffu, 0x7fc00001u}) {
    for (Tensor* tensor : {&work.keys(), &work.values()}) {
      const Tensor kept = tensor->copied();
      tensor->data<float>()[(3 + 150) * 64 + 5] = std::bit_cast<float>(bits);
      const std::vector<float> spoiled = work.run(1).to_floats();
      EXPECT_TRUE(std::isnan(spoiled[5]) && std::isnan(spoiled[64 + 5]));
      EXPECT_EQ(spoiled[130], sound[130]);
      // Masked it is not there.
      std::vector<std::uint8_t> all_but_it(200, 1);
      all_but_it[150] = 0;
      work.sources()[0].visible = all_but_it.data();
      for (const float one : work.run(1).to_floats()) ASSERT_TRUE(std::isfinite(one));
      work.sources()[0].visible = nullptr;
      std::copy_n(kept.data<float>(), kept.size(), tensor->data<float>());
    }
  }
}

/// However many keys there are: a maximum over lanes can lose a NaN to the −∞ of lanes without a
/// key.
TEST(FewQueries, NaNInEveryKeyShows) {
  for (Index keys = 1; keys <= 40; ++keys) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      FewQueries work({1, 20, {1, 4}, {keys, keys}}, dtype, false);
      for (const std::uint32_t bits : {0x7fc00000u, 0x7fffffffu, 0xffffffffu}) {
        const Tensor bad = Tensor::from(
            std::vector<float>(at(work.keys().size()), std::bit_cast<float>(bits)),
            {work.keys().dimension(0), work.keys().dimension(1), work.keys().dimension(2)});
        work.keys() = bad.to(dtype);
        for (const float one : work.run(1).to_floats()) ASSERT_TRUE(std::isnan(one)) << keys;
      }
    }
  }
}

// ---- Documents with few queries in causal windows ----

TEST(FewQueriesInWindows, NaNInEveryKeyShows) {
  for (Index keys = 1; keys <= 40; ++keys) {
    const AttentionSpec plain = causal(with_documents(
        self_attention(0, 1, 20, previous(kUnlimitedReach)), {{0, 2, 0, keys + 1, keys - 1}}));
    for (const AttentionSpec& spec : {plain, with_positions(plain)}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        TrainingInputs x(spec, 17, dtype);
        const std::vector<float> bad(at(x.in.key.size()), std::nanf(""));
        x.in.key = Tensor::from(bad, {1, keys + 1, 20}).to(dtype);
        const FusedResult found(spec, x, 1);
        for (const float one : found.out.to_floats()) ASSERT_TRUE(std::isnan(one)) << keys;
        for (Index i = 0; i < found.logsumexp.size(); ++i) {
          ASSERT_TRUE(std::isnan(found.logsumexp.data<float>()[i])) << keys;
        }
      }
    }
  }
}

TEST(FewQueriesInWindows, EqualAttentionByDefinition) {
  // The first document is at its beginning, the second sees no key of its own, the third only those
  // of a memory, of which the window holds a part; one is long, and goes through tiles.
  const std::vector<AttentionDocument> documents = {{0, 2, 0, 2, 0},      {2, 1, 2, 0, 5},
                                                    {3, 4, 2, 129, 140},  {7, 1, 131, 400, 399},
                                                    {8, 21, 531, 60, 39}, {29, 3, 591, 9, 2}};
  for (const Index head_size : {1, 7, 16, 64, 67}) {
    const AttentionSpec plain = causal(
        with_documents(with_heads(self_attention(0, 3, head_size, previous(0)),
                                  {previous(kUnlimitedReach), previous(12, 3), previous(130)}),
                       documents));
    for (const AttentionSpec& spec : {plain, with_positions(plain)}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const TrainingInputs x(spec, 17, dtype);
        const FusedResult found(spec, x, 2);
        const double tolerance = dtype == DType::f32 ? 2e-6 : 2e-2;
        const std::vector<float> out = found.out.to_floats();
        EXPECT_TRUE(max_difference(out, x.truth.out) <= tolerance) << head_size;
        for (Index i = 0; i < found.logsumexp.size(); ++i) {
          const double is = found.logsumexp.data<float>()[i], should = x.truth.logsumexp[at(i)];
          if (std::isinf(should)) {
            EXPECT_EQ(is, should);
          } else {
            EXPECT_TRUE(std::abs(is - should) <= tolerance) << head_size << " " << i;
          }
        }
      }
    }
  }
}

TEST(FewQueriesInWindows, TheSameBitsWhateverElseIsInTheBatch) {
  const auto spec_of = [](std::vector<AttentionDocument> documents) {
    return with_positions(
        causal(with_documents(self_attention(0, 2, 64, previous(50)), std::move(documents))));
  };
  const AttentionSpec both = spec_of({{0, 3, 0, 80, 77}, {3, 40, 80, 40, 0}});
  const TrainingInputs x(both, 5, DType::f32);
  const std::vector<float> all = FusedResult(both, x, 2).out.to_floats();
  // The same rows, and a document without queries that takes the other keys.
  TrainingInputs alone = x;
  alone.out = Tensor({3, 128}, DType::f32);
  alone.logsumexp = Tensor({2, 3}, DType::f32);
  alone.in.query = Tensor({2, 3, 64}, DType::f32);
  for (Index head = 0; head < 2; ++head) {
    std::copy_n(x.in.query.data<float>() + head * 43 * 64, 3 * 64,
                alone.in.query.data<float>() + head * 3 * 64);
  }
  const AttentionSpec one = spec_of({{0, 3, 0, 80, 77}, {3, 0, 80, 40, 0}});
  const std::vector<float> found = FusedResult(one, alone, 1).out.to_floats();
  EXPECT_EQ(found, std::vector<float>(all.begin(), all.begin() + 3 * 128));
}

}  // namespace
}  // namespace longformer::kernels::few_queries_test
