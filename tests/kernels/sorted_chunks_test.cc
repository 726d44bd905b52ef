// Attention over sorted chunks, and its hashes, against plain loops in double.
//
// Reruns: tsan
#include "kernels/attention/sorted_chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "core/random.h"
#include "doubles.h"
#include "kernels/attention/hash_buckets.h"

namespace longformer::kernels::sorted_chunks_test {
namespace {

struct Size {
  Index heads, d, tokens, chunk, before, rounds;
  DType dtype;
  Index after = 0;
  bool causal = true;
  /// Every so many keys one is masked; 0: none.
  Index masked = 0;
};

/// Shuffled orders with empty places between.
std::vector<std::int32_t> shuffled(Index lists, Index tokens, Index places) {
  std::mt19937 generator(static_cast<unsigned>(tokens + lists));
  std::vector<std::int32_t> order;
  for (Index list = 0; list < lists; ++list) {
    std::vector<std::int32_t> own(at(places), -1);
    for (Index i = 0; i < tokens; ++i) own[at(i)] = static_cast<std::int32_t>(i);
    std::shuffle(own.begin(), own.end(), generator);
    order.insert(order.end(), own.begin(), own.end());
  }
  return order;
}

struct Case {
  explicit Case(const Size& size)
      : query(random_normal_tensor({size.heads, size.tokens, size.d}, 1, 1).to(size.dtype)),
        key(random_normal_tensor({size.heads, size.tokens, size.d}, 1, 2).to(size.dtype)),
        value(random_normal_tensor({size.heads, size.tokens, size.d}, 1, 3).to(size.dtype)),
        gradient(random_normal_tensor({size.tokens, size.heads * size.d}, 1, 4).to(size.dtype)) {
    spec.heads = size.heads;
    spec.head_size = size.d;
    spec.scale = 1 / std::sqrt(static_cast<float>(size.d));
    spec.sees_itself = size.rounds == 1;
    spec.causal = size.causal;
    const Index places = (size.tokens / size.chunk + 2) * size.chunk;
    spec.documents = {{.rows = {0, size.tokens, 0, size.tokens, 0},
                       .rounds = size.rounds,
                       .places = places,
                       .chunk = size.chunk,
                       .before = size.before,
                       .after = size.after,
                       .order = shuffled(size.heads * size.rounds, size.tokens, places)}};
    for (Index key = 0; key < size.tokens && size.masked > 0; ++key) {
      spec.documents[0].visible.push_back(key % size.masked == 1 ? 0 : 1);
    }
  }

  /// How often a query sees a key: once in every round where it may.
  Index times_seen(Index head, Index query_token, Index key_token) const {
    const ChunkedDocument& document = spec.documents[0];
    if (spec.causal && key_token > query_token) return 0;
    if (!spec.sees_itself && key_token == query_token) return 0;
    if (!document.visible.empty() && document.visible[at(key_token)] == 0) return 0;
    const auto* order = document.order.data() + head * document.rounds * document.places;
    const Index all = document.rounds * document.places;
    const Index chunks = all / document.chunk;
    Index times = 0;
    for (Index q = 0; q < all; ++q) {
      for (Index k = 0; k < all && order[q] == query_token; ++k) {
        if (order[k] != key_token) continue;
        const Index own = q / document.chunk, seen = k / document.chunk;
        for (Index step = -document.before; step <= document.after; ++step) {
          const bool is_beyond = std::max(step, -step) > chunks;
          times += (is_beyond ? own : (own + step + chunks) % chunks) == seen;
        }
      }
    }
    return times;
  }

  struct Truth {
    Doubles out, query, key, value;
  };
  Truth truth() const;

  SortedChunks spec;
  Tensor query, key, value, gradient;
};

Case::Truth Case::truth() const {
  const Index heads = spec.heads, d = spec.head_size, n = query.dimension(1);
  const Doubles q = doubles(query), k = doubles(key), v = doubles(value), g = doubles(gradient);
  Truth t = {Doubles(g.size()), Doubles(q.size()), Doubles(k.size()), Doubles(v.size())};
  for (Index h = 0; h < heads; ++h) {
    for (Index i = 0; i < n; ++i) {
      const Index own = (h * n + i) * d, token = (i * heads + h) * d;
      Doubles p(at(n)), passed(at(n));
      double sum = 0, mean = 0;
      for (Index j = 0; j < n; ++j) {
        double score = 0;
        for (Index c = 0; c < d; ++c) score += q[at(own + c)] * k[at((h * n + j) * d + c)];
        p[at(j)] = static_cast<double>(times_seen(h, i, j)) *
                   std::exp(score * static_cast<double>(spec.scale));
        sum += p[at(j)];
      }
      const bool is_alone = sum == 0;
      if (is_alone) p[at(i)] = sum = 1;
      for (Index j = 0; j < n; ++j) {
        p[at(j)] /= sum;
        for (Index c = 0; c < d; ++c) {
          const Index at_key = (h * n + j) * d + c;
          t.out[at(token + c)] += p[at(j)] * v[at(at_key)];
          t.value[at(at_key)] += p[at(j)] * g[at(token + c)];
          passed[at(j)] += g[at(token + c)] * v[at(at_key)];
        }
        mean += p[at(j)] * passed[at(j)];
      }
      for (Index j = 0; j < n && !is_alone; ++j) {
        const double ds = p[at(j)] * (passed[at(j)] - mean) * static_cast<double>(spec.scale);
        for (Index c = 0; c < d; ++c) {
          t.query[at(own + c)] += ds * k[at((h * n + j) * d + c)];
          t.key[at((h * n + j) * d + c)] += ds * q[at(own + c)];
        }
      }
    }
  }
  return t;
}

void expect_near(const Tensor& found, const Doubles& wanted, double tolerance) {
  const Doubles numbers = doubles(found);
  ASSERT_EQ(numbers.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_TRUE(std::abs(numbers[i] - wanted[i]) <= tolerance * (1 + std::abs(wanted[i]))) << i;
  }
}

class SortedChunksSizes : public testing::TestWithParam<Size> {};

TEST_P(SortedChunksSizes, ForwardAndBackwardEqualPlainLoops) {
  const Size& size = GetParam();
  const Case one(size);
  const Case::Truth truth = one.truth();
  const double tolerance = size.dtype == DType::f32 ? 2e-5 : 2e-2;
  for (Index head = 0; head < size.heads; ++head) {
    const auto times = times_seen(one.spec, 0, head);
    for (Index i = 0; i < size.tokens; ++i) {
      Index others = 0, own = 0;
      for (Index j = 0; j < size.tokens; ++j) {
        const Index wanted = one.times_seen(head, i, j);
        others += wanted;
        own = times[at(i * size.tokens + i)];
        if (j != i) {
          ASSERT_EQ(times[at(i * size.tokens + j)], wanted) << i << " sees " << j;
        }
      }
      ASSERT_EQ(own, others == 0 ? 1 : one.times_seen(head, i, i)) << i;
    }
  }
  const auto like = [](const Tensor& x) { return Tensor(x.shape(), x.dtype()); };
  for (const int threads : {1, 2}) {
    Tensor out = like(one.gradient), logsumexp({size.heads, size.tokens}, DType::f32);
    sorted_chunks(one.spec, {.query = one.query,
                             .key = one.key,
                             .value = one.value,
                             .out = out,
                             .logsumexp = logsumexp,
                             .threads = threads});
    expect_near(out, truth.out, tolerance);
    Tensor query = like(one.query), key = like(one.key), value = like(one.value);
    sorted_chunks_backward(one.spec, {.query = one.query,
                                      .key = one.key,
                                      .value = one.value,
                                      .out = out,
                                      .logsumexp = logsumexp,
                                      .out_gradient = one.gradient,
                                      .query_gradient = query,
                                      .key_gradient = key,
                                      .value_gradient = value,
                                      .threads = threads});
    expect_near(query, truth.query, tolerance);
    expect_near(key, truth.key, tolerance);
    expect_near(value, truth.value, tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Odd, SortedChunksSizes,
    testing::Values(Size{1, 1, 1, 1, 0, 1, DType::f32}, Size{2, 5, 17, 3, 1, 1, DType::f32},
                    Size{3, 33, 31, 7, 2, 3, DType::f32}, Size{2, 64, 70, 16, 1, 2, DType::f32},
                    Size{1, 7, 23, 1, 3, 2, DType::f32}, Size{2, 16, 40, 8, 0, 4, DType::f32},
                    Size{2, 33, 31, 7, 1, 2, DType::bf16},
                    Size{1, 1, 1, 1, 0, 1, DType::f32, 2, false},
                    Size{2, 5, 17, 3, 1, 1, DType::f32, 1, false},
                    Size{3, 33, 31, 7, 0, 3, DType::f32, 2, false, 3},
                    Size{2, 16, 40, 8, 9, 1, DType::f32, 9, false},
                    Size{1, 7, 23, 1, 2, 2, DType::f32, 30, false, 2},
                    Size{2, 9, 19, 4, 1, 1, DType::f32, 1, false, 4},
                    Size{2, 33, 31, 7, 1, 2, DType::bf16, 1, false, 5},
                    Size{1, 16, 150, 67, 1, 2, DType::f32, 1, false, 6},
                    Size{1, 16, 150, 67, 1, 2, DType::f32},
                    Size{2, 20, 90, 41, 0, 1, DType::f32, 2, false, 7}));

TEST(HashBuckets, AreThePlacesOfTheLargestProducts) {
  const Index heads = 3, d = 7, n = 301, begin = 5, count = 290;
  const std::vector<std::vector<Index>> all = {{2}, {10}, {4, 6}};
  for (const auto& factors : all) {
    Index columns = 0;
    for (const Index factor : factors) columns += factor / 2;
    const Index rounds = 3;
    const HashRotations hash = {random_normal_tensor({heads, d, rounds * columns}, 1, 5), rounds,
                                factors};
    const Tensor x = random_normal_tensor({heads, n, d}, 1, 6);
    const auto found = hash_buckets(x, begin, count, hash, 2);
    const Doubles rows = doubles(x), r = doubles(hash.rotations);
    for (Index i = 0; i < heads * rounds * count; ++i) {
      const Index head = i / (rounds * count), round = i / count % rounds, row = i % count;
      Index bucket = 0, digit = 1, first = 0;
      for (const Index factor : factors) {
        double most = -1;
        Index place = 0;
        for (Index c = 0; c < factor; ++c) {
          double sum = 0;
          for (Index e = 0; e < d; ++e) {
            const Index column = round * columns + first + c % (factor / 2);
            sum += rows[at((head * n + begin + row) * d + e)] *
                   r[at((head * d + e) * rounds * columns + column)];
          }
          if (c >= factor / 2) sum = -sum;
          if (sum > most) most = sum, place = c;
        }
        bucket += digit * place;
        digit *= factor;
        first += factor / 2;
      }
      ASSERT_EQ(found[at(i)], bucket) << i;
    }
  }
}

TEST(HashBuckets, AreSortedStably) {
  const std::vector<std::int32_t> buckets = {2, 0, 2, 1, 0, 3, 3, 3, 3, 3};
  EXPECT_EQ(bucket_order(buckets, 5, 7, 2),
            (std::vector<std::int32_t>{1, 4, 3, 0, 2, -1, -1, 0, 1, 2, 3, 4, -1, -1}));
}

}  // namespace
}  // namespace longformer::kernels::sorted_chunks_test
