// The Performer's attention: golden vectors (docs/spec/golden.md#m3), its formulas pair by pair,
// and what must hold (docs/spec/low-rank-and-kernels.md#f7).
//
// Reruns: tsan
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "core/random.h"
#include "doubles.h"
#include "feature_testing.h"
#include "golden.h"

namespace longformer::kernels::feature_attention_test {
namespace {

constexpr std::array<FeatureKernel, 5> kKernels = {
    FeatureKernel::softmax, FeatureKernel::hyperbolic, FeatureKernel::trigonometric,
    FeatureKernel::relu, FeatureKernel::elu};

/// Largest difference by the largest number of `right`; NaN where there is one.
double relative_difference(const Doubles& found, const Doubles& right) {
  double most = 0, scale = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const double off = std::abs(found.at(i) - right[i]);
    most = most >= off ? most : off;
    scale = std::max(scale, std::abs(right[i]));
  }
  return most / scale;
}

Tensor scaled(Tensor x, float factor) {
  Tensor y = x.copied();
  for (Index i = 0; i < y.size(); ++i) y.data<float>()[i] *= factor;
  return y;
}

struct Case {
  FeatureMap map;
  Index heads = 1;
  std::vector<Index> starts;
  bool causal = false;
  std::vector<std::uint8_t> mask = {};
  DType dtype = DType::f32;
  int threads = 2;

  FeatureAttentionSpec spec() const {
    AttentionRows rows = self_attention_rows(starts);
    rows.key_mask = mask;
    return {map, heads, causal, shared(std::move(rows))};
  }
};

Tensor attend(const Case& of, const Tensor& query, const Tensor& key, const Tensor& value,
              const Tensor& directions, Tensor* sums = nullptr) {
  Tensor out({of.starts.back(), of.heads * of.map.head_size}, of.dtype);
  feature_attention(of.spec(), {query.to(of.dtype), key.to(of.dtype), value.to(of.dtype),
                                directions, out, of.threads, sums});
  return out;
}

/// Attention computed pair by pair.
Doubles truth(const Case& of, const Tensor& query, const Tensor& key, const Tensor& value,
              const Tensor& directions) {
  const Index d = of.map.head_size, n = of.starts.back();
  Doubles out(at(n * of.heads * d));
  for (Index head = 0; head < of.heads; ++head) {
    const Doubles all = doubles(directions);
    const Index own = directions.shape().size() == 3 ? of.map.directions * d : 0;
    const Doubles omega(all.begin() + head * own,
                        own > 0 ? all.begin() + (head + 1) * own : all.end());
    for (std::size_t i = 0; i + 1 < of.starts.size(); ++i) {
      const Index begin = of.starts[i], end = of.starts[i + 1];
      const auto part = [&](const Tensor& x) {
        const Doubles values = doubles(x.to(of.dtype));
        return Doubles(values.begin() + (head * n + begin) * d,
                       values.begin() + (head * n + end) * d);
      };
      std::vector<std::uint8_t> mask;
      if (!of.mask.empty()) mask = {of.mask.begin() + begin, of.mask.begin() + end};
      const Doubles found = true_feature_attention(of.map, of.causal, part(query), part(key),
                                                   part(value), omega, mask);
      for (Index row = 0; row < end - begin; ++row) {
        std::copy_n(found.begin() + row * d, d,
                    out.begin() + ((begin + row) * of.heads + head) * d);
      }
    }
  }
  return out;
}

FeatureMap map_of(FeatureKernel kernel, Index size, Index directions) {
  FeatureMap map = {.kernel = kernel, .head_size = size, .directions = directions};
  if (kernel == FeatureKernel::relu) map.epsilon = 1e-3;
  if (!map.is_exponential() && kernel != FeatureKernel::trigonometric) map.normalizes = false;
  if (kernel == FeatureKernel::elu) map.directions = 0;
  return map;
}

TEST(FeatureAttention, IsThatOfTheGoldenVectors) {
  const Tensor q = det({1, 4, 4}, 1, 1), k = det({1, 4, 4}, 2, 1), v = det({1, 4, 4}, 3, 1);
  const Tensor omega = det({6, 4}, 4, 1.5);
  const auto rows = [&](FeatureMap map, bool causal, float keys, float queries = 1,
                        std::vector<std::uint8_t> mask = {}) {
    return doubles(
        attend({map, 1, {0, 4}, causal, mask}, scaled(q, queries), scaled(k, keys), v, omega));
  };
  const auto softmax = map_of(FeatureKernel::softmax, 4, 6);
  const auto part = [](const Doubles& x, Index row, Index count) {
    return Doubles(x.begin() + 4 * row, x.begin() + 4 * (row + count));
  };
  EXPECT_LE(relative_difference(
                rows(softmax, false, 1),
                {-0.594597857, -0.553541956, -0.252146645, 0.167837185, 0.479220434, 0.635900300,
                 0.493506317, 0.119008616, -0.088346063, -0.065071310, -0.011192512, 0.047950309,
                 0.135785112, 0.308609099, 0.336289395, 0.205807549}),
            2e-6);
  EXPECT_LE(relative_difference(part(rows(softmax, true, 1), 1, 2),
                                {0.436755225, 0.438828599, 0.234514056, -0.080096127, -0.222528469,
                                 -0.251970036, -0.162906163, 0.002775028}),
            2e-6);
  EXPECT_LE(relative_difference(
                part(rows(softmax, true, 30), 1, 3),
                {0.988168240, 0.854598880, 0.319098353, -0.366479129, -0.879695773, -0.979177713,
                 -0.618137121, 0.033623047, 0.669569790, 0.990607381, 0.845746815, 0.303118348}),
            2e-6);
  const auto hyperbolic = map_of(FeatureKernel::hyperbolic, 4, 6);
  EXPECT_LE(relative_difference(part(rows(hyperbolic, false, 1), 2, 2),
                                {-0.246843193, -0.214363576, -0.081065433, 0.090359061,
                                 -0.120404252, 0.060938570, 0.213621020, 0.265834178}),
            2e-6);
  EXPECT_LE(relative_difference(part(rows(hyperbolic, true, 1), 1, 1),
                                {0.244005225, 0.293493397, 0.204947066, 0.020010911}),
            2e-6);
  const auto relu = map_of(FeatureKernel::relu, 4, 6);
  EXPECT_LE(relative_difference(part(rows(relu, false, 1), 0, 1),
                                {-0.714032391, -0.688429264, -0.339047119, 0.169794195}),
            2e-6);
  EXPECT_LE(relative_difference(part(rows(relu, true, 1), 2, 1),
                                {-0.341003988, -0.376258552, -0.234552852, 0.017466727}),
            2e-6);
  EXPECT_LE(relative_difference(
                part(rows(map_of(FeatureKernel::trigonometric, 4, 6), true, 0.3f, 0.3f), 2, 2),
                {-0.315211461, -0.280321598, -0.113592109, 0.106561523, -0.066451659, 0.056970369,
                 0.153598336, 0.177986614}),
            2e-6);
  auto floor = softmax;
  floor.epsilon = 1e-4;
  EXPECT_LE(relative_difference(part(rows(floor, false, 1), 0, 1),
                                {-0.593847371, -0.552715987, -0.251633659, 0.167795923}),
            2e-6);
  floor.epsilon = 1e-6;
  EXPECT_LE(relative_difference(part(rows(floor, false, 1, 1, {1, 1, 1, 0}), 1, 2),
                                {0.286756374, 0.277259343, 0.137362933, -0.067137421, -0.222528333,
                                 -0.251969240, -0.162905082, 0.002775887}),
            2e-6);
}

/// Odd sizes, several documents, masks, both dtypes, all kernels.
TEST(FeatureAttention, IsTheSumOverPairs) {
  for (const FeatureKernel kernel : kKernels) {
    for (const bool causal : {false, true}) {
      for (const bool own : {false, true}) {
        Case of = {map_of(kernel, 5, 19), 3, {0, 1, 150, 150, 284}, causal};
        if (own) of.mask.assign(284, 1);
        for (std::size_t i = 0; i < of.mask.size(); i += 7) of.mask[i] = 0;
        const Shape shape = {3, 284, 5};
        const Tensor q = random_normal_tensor(shape, 1, 1), k = random_normal_tensor(shape, 1, 2),
                     v = random_normal_tensor(shape, 1, 3);
        const Tensor omega = random_normal_tensor(own ? Shape{3, 19, 5} : Shape{19, 5}, 1, 4);
        const std::string name =
            std::to_string(static_cast<int>(kernel)) + (causal ? "c" : "b") + (own ? "m" : "");
        // Sums of signed features may nearly vanish, and then have few digits.
        const double tolerance = kernel == FeatureKernel::trigonometric ? 1e-3 : 3e-6;
        const Doubles right = truth(of, q, k, v, omega);
        EXPECT_LE(relative_difference(doubles(attend(of, q, k, v, omega)), right), tolerance)
            << name;
        of.threads = 1;
        EXPECT_LE(relative_difference(doubles(attend(of, q, k, v, omega)), right), tolerance)
            << name;
        of.dtype = DType::bf16;
        EXPECT_LE(
            relative_difference(doubles(attend(of, q, k, v, omega)), truth(of, q, k, v, omega)),
            4e-3)
            << name;
      }
    }
  }
}

/// Gradients of queries, keys and values, one behind the other.
Doubles gradients(const Case& of, const std::array<Tensor, 3>& in, const Tensor& directions,
                  const Tensor& out_gradient) {
  const auto cast = [&](const Tensor& x) { return x.to(DType::bf16).to(of.dtype); };
  const Tensor q = cast(in[0]), k = cast(in[1]), v = cast(in[2]), g = cast(out_gradient);
  Tensor out({of.starts.back(), of.heads * of.map.head_size}, of.dtype);
  feature_attention(of.spec(), {q, k, v, directions, out, of.threads});
  Tensor dq(q.shape(), of.dtype), dk(q.shape(), of.dtype), dv(q.shape(), of.dtype);
  feature_attention_backward(of.spec(), {q, k, v, directions, out, g, dq, dk, dv, of.threads});
  Doubles all = doubles(dq);
  for (const Tensor* x : {&dk, &dv}) {
    const Doubles more = doubles(*x);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

/// Root of the mean square of the difference, by that of `right`.
double relative_error(const Doubles& found, const Doubles& right) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    off += (found.at(i) - right[i]) * (found.at(i) - right[i]);
    all += right[i] * right[i];
  }
  return std::sqrt(off / all);
}

/// Numbers of features that bf16 products take, blocks that are whole and not, with masks.
TEST(FeatureAttention, ProductsInBf16KeepItsDigits) {
  for (const FeatureKernel kernel : kKernels) {
    for (const bool causal : {false, true}) {
      Case of = {map_of(kernel, 16, 64), 2, {0, 1, 130, 130, 400}, causal};
      of.mask.assign(400, 1);
      for (std::size_t i = 0; i < of.mask.size(); i += 7) of.mask[i] = 0;
      const Shape shape = {2, 400, 16};
      const std::array<Tensor, 3> in = {random_normal_tensor(shape, 1, 1),
                                        random_normal_tensor(shape, 1, 2),
                                        random_normal_tensor(shape, 1, 3)};
      const Tensor omega = random_normal_tensor({64, 16}, 1, 4);
      const Tensor out_gradient = random_normal_tensor({400, 32}, 1, 5);
      const std::string name = std::to_string(static_cast<int>(kernel)) + (causal ? "c" : "b");
      const Doubles exact = gradients(of, in, omega, out_gradient);
      of.dtype = DType::bf16;
      EXPECT_LE(relative_error(doubles(attend(of, in[0], in[1], in[2], omega)),
                               truth(of, in[0], in[1], in[2], omega)),
                8e-3)
          << name;
      EXPECT_LE(relative_error(gradients(of, in, omega, out_gradient), exact), 2e-2) << name;
      if (!of.map.is_exponential() || causal) continue;
      of.map.epsilon = 1e-4;
      for (const DType dtype : {DType::f32, DType::bf16}) {
        of.dtype = dtype;
        EXPECT_LE(relative_error(doubles(attend(of, in[0], in[1], in[2], omega)),
                                 truth(of, in[0], in[1], in[2], omega)),
                  dtype == DType::f32 ? 1e-5 : 8e-3)
            << name;
      }
    }
  }
}

/// Also where a later key would flush what earlier rows see, or the first keys all that follows.
TEST(FeatureAttention, NoRowDependsOnLaterTokens) {
  for (const FeatureKernel kernel : kKernels) {
    for (const bool first_are_long : {false, true}) {
      Case of = {map_of(kernel, 8, 24), 2, {0, 200}, true};
      const Shape shape = {2, 200, 8};
      const Tensor q = random_normal_tensor(shape, 1, 1), v = random_normal_tensor(shape, 1, 3);
      Tensor k = scaled(random_normal_tensor(shape, 1, 2), first_are_long ? 1 : 30);
      for (Index i = 0; first_are_long && i < 40; ++i) k.data<float>()[i] *= 60;
      const Tensor omega = random_normal_tensor({24, 8}, 1, 4);
      const Doubles right = truth(of, q, k, v, omega);
      const Doubles all = doubles(attend(of, q, k, v, omega));
      // Exponents of thousands have few digits behind the point in fp32.
      const bool is_even = kernel == FeatureKernel::relu || kernel == FeatureKernel::elu;
      if (is_even) {
        EXPECT_LE(relative_difference(all, right), 1e-5);
      }
      for (const Index count : {1, 63, 64, 65, 130}) {
        of.starts = {0, count, 200};
        const Doubles some = doubles(attend(of, q, k, v, omega));
        EXPECT_LE(relative_difference(Doubles(some.begin(), some.begin() + count * 16),
                                      Doubles(all.begin(), all.begin() + count * 16)),
                  1e-5)
            << static_cast<int>(kernel) << first_are_long << count;
      }
    }
  }
}

TEST(FeatureAttention, PiecesGiveWhatTheWholeGives) {
  for (const FeatureKernel kernel : kKernels) {
    const Case whole = {map_of(kernel, 8, 24), 2, {0, 150}, true};
    const Shape shape = {2, 150, 8};
    // Sums of cosines nearly vanish for long queries and keys, and have no digits then.
    const float length = kernel == FeatureKernel::trigonometric ? 0.3f : 1.0f;
    const Tensor q = random_normal_tensor(shape, length, 1),
                 k = random_normal_tensor(shape, length, 2), v = random_normal_tensor(shape, 1, 3),
                 omega = random_normal_tensor({24, 8}, 1, 4);
    const Doubles all = doubles(attend(whole, q, k, v, omega));
    Tensor sums = empty_feature_sums(whole.spec(), 1);
    Doubles found;
    for (Index begin = 0; begin < 150;) {
      const Index count = std::min<Index>(begin < 5 ? 1 : 70, 150 - begin);
      const Case piece = {whole.map, 2, {0, count}, true};
      const auto rows = [&](const Tensor& x) {
        Tensor some({2, count, 8}, DType::f32);
        for (Index head = 0; head < 2; ++head) {
          std::copy_n(x.data<float>() + (head * 150 + begin) * 8, count * 8,
                      some.data<float>() + head * count * 8);
        }
        return some;
      };
      const Doubles part = doubles(attend(piece, rows(q), rows(k), rows(v), omega, &sums));
      found.insert(found.end(), part.begin(), part.end());
      begin += count;
    }
    EXPECT_LE(relative_difference(found, all), 1e-5);
    // The last row sees what every row of attention in both directions sees.
    Case both = whole;
    both.causal = false;
    const Doubles two = doubles(attend(both, q, k, v, omega));
    EXPECT_LE(
        relative_difference(Doubles(all.end() - 16, all.end()), Doubles(two.end() - 16, two.end())),
        1e-5);
  }
}

}  // namespace
}  // namespace longformer::kernels::feature_attention_test
