// Random directions of features: the golden block (docs/spec/golden.md#m3), and the laws of the
// estimate (arXiv 2009.14794, Lemma 2 and Theorem 2; docs/spec/low-rank-and-kernels.md#f2, #f3,
// #f7).
//
// Reruns: tsan
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.h"
#include "feature_testing.h"
#include "golden.h"
#include "kernels/initialization.h"

namespace longformer::kernels::feature_draw_test {
namespace {

constexpr Index kSize = 16;

/// The estimate of e^{x·y} by positive features, for x = y = z/2.
double estimate(const Tensor& directions, const Doubles& z, bool hyperbolic) {
  double square = 0, sum = 0;
  for (const double value : z) square += value * value / 4;
  for (Index r = 0; r < directions.rows(); ++r) {
    double product = 0;
    for (Index c = 0; c < kSize; ++c) {
      product += static_cast<double>(directions.data<float>()[r * kSize + c]) * z[at(c)];
    }
    const double forward = std::exp(product - square);
    sum += hyperbolic ? 0.5 * (forward + std::exp(-product - square)) : forward;
  }
  return sum / static_cast<double>(directions.rows());
}

struct Moments {
  double mean = 0, square_error = 0, standard_error = 0;
};

/// Over many draws of m directions, for a z of this length along an axis or in the middle of all.
Moments moments(const FeatureDraw& draw, Index m, const Doubles& z, bool hyperbolic = false) {
  constexpr int kDraws = 10000;
  double product = 0;
  for (const double value : z) product += value * value / 4;
  const double right = std::exp(product);
  Moments found;
  Tensor directions({m, kSize}, DType::f32);
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    draw_features(draw, static_cast<std::uint64_t>(i) + 77, directions);
    const double value = estimate(directions, z, hyperbolic) / right;
    found.mean += value / kDraws;
    found.square_error += (value - 1) * (value - 1) / kDraws;
    squares += value * value / kDraws;
  }
  found.standard_error = std::sqrt((squares - found.mean * found.mean) / kDraws);
  return found;
}

Doubles along_axis(double length) {
  Doubles z(at(kSize), 0.0);
  z[0] = length;
  return z;
}

TEST(FeatureDraw, OrthogonalBlockIsThatOfTheGoldenVectors) {
  const Tensor g = det({4, 4}, 5, 1), lengths = det({4, 4}, 6, 1);
  std::vector<double> rows(16);
  // The script decomposes G itself, whose columns become rows.
  for (std::size_t i = 0; i < 16; ++i) {
    rows[i] = static_cast<double>(g.data<float>()[i % 4 * 4 + i / 4]);
  }
  orthogonalize(rows.data(), 4, 4);
  const Doubles right = {0.954898738,  -0.781516268, 0.517825367,  -0.194297049,
                         -0.539822976, -0.016995184, 0.571849586,  -1.060623644,
                         0.041463368,  -0.514480047, -1.075287798, -0.592615562,
                         -0.796858320, -0.992168047, 0.163204679,  0.509467274};
  for (std::size_t i = 0; i < 16; ++i) {
    double length = 0;
    for (std::size_t c = 0; c < 4; ++c) {
      length += std::pow(static_cast<double>(lengths.data<float>()[i / 4 * 4 + c]), 2);
    }
    EXPECT_NEAR(rows[i] * std::sqrt(length), right[i], 2e-6) << i;
  }
}

TEST(FeatureDraw, TheEstimateIsUnbiasedAndItsErrorThatOfLemma2) {
  const double length = 1.5, square = length * length;
  const FeatureDraw independent = {.orthogonal = false};
  for (const double sign : {1.0, -1.0}) {
    for (const bool orthogonal : {true, false}) {
      const Moments found = moments({.orthogonal = orthogonal}, 32, along_axis(sign * length));
      EXPECT_LE(std::abs(found.mean - 1), 4 * found.standard_error) << sign << orthogonal;
    }
  }
  const Moments positive = moments(independent, 32, along_axis(length));
  const double lemma = std::exp(square) * (1 - std::exp(-square)) / 32;
  EXPECT_NEAR(positive.square_error / lemma, 1, 0.25);
  const Moments both = moments(independent, 32, along_axis(length), true);
  EXPECT_NEAR(both.square_error / (0.5 * (1 - std::exp(-square)) * lemma), 1, 0.25);
  const Moments orthogonal = moments({}, 32, along_axis(length));
  EXPECT_LT(orthogonal.square_error, 0.95 * positive.square_error);
}

TEST(FeatureDraw, ConstantLengths) {
  Tensor directions({40, kSize}, DType::f32);
  draw_features({.constant_lengths = true}, 3, directions);
  for (Index r = 0; r < 40; ++r) {
    double square = 0, other = 0;
    for (Index c = 0; c < kSize; ++c) {
      const double value = static_cast<double>(directions.data<float>()[r * kSize + c]);
      square += value * value;
      if (r % kSize > 0)
        other += value * static_cast<double>(directions.data<float>()[(r - 1) * kSize + c]);
    }
    EXPECT_NEAR(square, kSize, 1e-4);
    EXPECT_NEAR(other, 0, 1e-4);
  }
}

/// Queries and keys have length 1; attention with the exact kernel is the truth.
TEST(FeatureDraw, TheErrorOfAttentionFallsAsTheRootOfFeatures) {
  constexpr Index kTokens = 60;
  const auto unit_rows = [](std::uint64_t seed) {
    Tensor x = random_normal_tensor({1, kTokens, kSize}, 1, seed);
    for (Index row = 0; row < kTokens; ++row) {
      float* values = x.data<float>() + row * kSize;
      float square = 0;
      for (Index c = 0; c < kSize; ++c) square += values[c] * values[c];
      // Divided by the fourth root of the size they have length 1.
      for (Index c = 0; c < kSize; ++c) values[c] *= 2 / std::sqrt(square);
    }
    return x;
  };
  const Tensor q = unit_rows(1), k = unit_rows(2),
               v = random_normal_tensor({1, kTokens, kSize}, 1, 3);
  Doubles exact(at(kTokens * kSize));
  for (Index i = 0; i < kTokens; ++i) {
    double sum = 0;
    for (Index j = 0; j < kTokens; ++j) {
      double product = 0;
      for (Index c = 0; c < kSize; ++c) {
        product +=
            static_cast<double>(q.data<float>()[i * kSize + c] * k.data<float>()[j * kSize + c]);
      }
      const double weight = std::exp(product / 4);
      sum += weight;
      for (Index c = 0; c < kSize; ++c) {
        exact[at(i * kSize + c)] += weight * static_cast<double>(v.data<float>()[j * kSize + c]);
      }
    }
    for (Index c = 0; c < kSize; ++c) exact[at(i * kSize + c)] /= sum;
  }
  const auto error = [&](Index m) {
    double squares = 0;
    for (std::uint64_t draw = 0; draw < 20; ++draw) {
      Tensor directions({m, kSize}, DType::f32), out({kTokens, kSize}, DType::f32);
      draw_features({}, draw, directions);
      const FeatureAttentionSpec spec = {
          {FeatureKernel::softmax, kSize, m},
          1,
          false,
          shared(self_attention_rows(std::vector<Index>{0, kTokens}))};
      feature_attention(spec, {q, k, v, directions, out, 2});
      for (Index i = 0; i < out.size(); ++i) {
        squares += std::pow(static_cast<double>(out.data<float>()[i]) - exact[at(i)], 2);
      }
    }
    return std::sqrt(squares);
  };
  // 16 times as many features: a quarter of the error.
  EXPECT_NEAR(error(64) / error(1024), 4, 1.2);
}

}  // namespace
}  // namespace longformer::kernels::feature_draw_test
