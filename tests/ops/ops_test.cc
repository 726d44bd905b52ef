// Every op against plain loops, over odd sizes, in fp32 and bf16.
//
// Reruns: tsan isa
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "activation_truth.h"
#include "core/memory.h"
#include "core/random.h"
#include "kernels/elementwise.h"
#include "kernels/normalization.h"
#include "kernels/packed_linear.h"
#include "kernels/reference.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/feed_forward.h"
#include "ops/global_attention.h"
#include "ops/linear.h"
#include "ops/row_blocks.h"

namespace longformer::ops::ops_test {
namespace {

using kernels::Activation;

Tensor random(const Shape& shape, std::uint64_t seed, float deviation = 1) {
  return random_normal_tensor(shape, deviation, seed);
}

/// Largest |a − b|; NaN where either has one.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return NAN;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double here = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(here <= largest)) largest = here;
  }
  return largest;
}

/// activation(x·Wᵀ + b) in double precision.
std::vector<float> plain_linear(const Tensor& x, const Tensor& w, const Tensor& b,
                                std::optional<Activation> activation = std::nullopt) {
  const auto xs = x.to_floats(), ws = w.to_floats(), bs = b.to_floats();
  const Index in = w.columns(), out = w.rows();
  std::vector<float> y;
  for (Index row = 0; row < x.rows(); ++row) {
    for (Index o = 0; o < out; ++o) {
      double sum = bs[static_cast<std::size_t>(o)];
      for (Index i = 0; i < in; ++i) {
        sum += static_cast<double>(xs[static_cast<std::size_t>(row * in + i)]) *
               ws[static_cast<std::size_t>(o * in + i)];
      }
      y.push_back(static_cast<float>(activation ? activation_truth(sum, *activation) : sum));
    }
  }
  return y;
}

std::vector<float> plain_norm(std::vector<float> x, Index width, const LayerNorm& norm) {
  const auto gamma = norm.weight.to_floats(), beta = norm.bias.to_floats();
  const auto columns = static_cast<std::size_t>(width);
  for (std::size_t at = 0; at < x.size(); at += columns) {
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < columns; ++c) mean += x[at + c];
    mean /= static_cast<double>(width);
    for (std::size_t c = 0; c < columns; ++c) variance += (x[at + c] - mean) * (x[at + c] - mean);
    variance /= static_cast<double>(width);
    for (std::size_t c = 0; c < columns; ++c) {
      x[at + c] = static_cast<float>(
          (x[at + c] - mean) / std::sqrt(variance + norm.epsilon) * gamma[c] + beta[c]);
    }
  }
  return x;
}

std::vector<float> sum(std::vector<float> a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

struct Case {
  DType dtype;
  int threads;
};

class Ops : public testing::TestWithParam<Case> {
 protected:
  Context context() {
    return {.memory = memory_, .dtype = GetParam().dtype, .threads = GetParam().threads};
  }
  /// The tensor as activations of this case.
  Tensor input(const Tensor& x) const { return x.to(GetParam().dtype); }
  double tolerance(double fp32) const { return GetParam().dtype == DType::f32 ? fp32 : 0.06; }
  Linear packed(const Tensor& w, const Tensor& b,
                std::optional<Activation> activation = std::nullopt) {
    return Linear(std::vector{w}, std::vector{b},
                  {.dtype = GetParam().dtype, .activation = activation});
  }
  LayerNorm norm(Index width) {
    return {.weight = random({width}, 90), .bias = random({width}, 91), .epsilon = 1e-5f};
  }
  MemoryPool memory_;
};

/// So many rows that some CPUs pack the weight, which an optimizer then changes.
TEST_P(Ops, TrainableLinearOfManyRowsFollowsItsWeight) {
  const Tensor x = input(random({1049, 40}, 31));
  Tensor w = random({56, 40}, 32, 0.2f), b = random({56}, 33);
  Tape::track(w);
  const Linear dense(std::vector{w}, std::vector{b},
                     {.dtype = GetParam().dtype, .trainable = true});
  for (const std::uint64_t seed : {32, 34}) {
    const std::vector<float> numbers = random({56, 40}, seed, 0.2f).to_floats();
    std::copy(numbers.begin(), numbers.end(), w.data<float>());
    ++w.gradient()->version;
    const Tensor y = linear(context(), x, dense, DType::f32);
    EXPECT_LT(difference(y.to_floats(), plain_linear(x, input(w), b)), tolerance(1e-4));
  }
}

TEST_P(Ops, LinearEqualsPlainLoops) {
  for (const auto& [n, in, out] : std::vector<std::tuple<Index, Index, Index>>{
           {1, 1, 1}, {1, 16, 48}, {3, 7, 5}, {17, 33, 20}, {130, 40, 24}, {600, 16, 8}}) {
    for (const std::optional<Activation> activation : {std::optional<Activation>(),
                                                       {Activation::gelu},
                                                       {Activation::gelu_tanh},
                                                       {Activation::relu},
                                                       {Activation::silu},
                                                       {Activation::tanh},
                                                       {Activation::quick_gelu},
                                                       {Activation::mish}}) {
      const Tensor x = input(random({n, in}, 1));
      const Tensor w = input(random({out, in}, 2, 0.3f)).to(DType::f32), b = random({out}, 3);
      const Tensor y = linear(context(), x, packed(w, b, activation), DType::f32);
      EXPECT_TRUE(difference(y.to_floats(), plain_linear(x, w, b, activation)) <= tolerance(2e-5))
          << n << "x" << in << "x" << out;
    }
  }
}

/// Products of so many rows have the activation inside where oneDNN has it.
TEST_P(Ops, ActivationsOfLargeNumbers) {
  constexpr Index kRows = 250, kWidth = 4;
  std::vector<float> one(kWidth * kWidth, 0.0f);
  for (std::size_t i = 0; i < kWidth; ++i) one[i * kWidth + i] = 1;
  const Tensor w = Tensor::from(one, {kWidth, kWidth}), b = Tensor::zeros({kWidth}, DType::f32);
  const Tensor x = input(Tensor::from(activation_places(kRows * kWidth), {kRows, kWidth}));
  const std::vector<float> at = x.to_floats();
  for (const Activation activation : kActivations) {
    for (const Tensor& y : {linear(context(), x, packed(w, b, activation), DType::f32),
                            activated(context(), activation, x)}) {
      const std::vector<float> values = y.to_floats();
      for (std::size_t i = 0; i < at.size(); ++i) {
        const double truth = activation_truth(at[i], activation);
        const double share = GetParam().dtype == DType::f32 ? 3e-6 : 1.0 / 128;
        ASSERT_TRUE(std::abs(values[i] - truth) <= share * std::max(1.0, std::abs(truth)))
            << static_cast<int>(activation) << " of " << at[i] << " is " << values[i];
      }
    }
  }
}

TEST_P(Ops, ActivationsKeepNaN) {
  for (const Activation activation : kActivations) {
    const Tensor x = input(Tensor::from(std::vector<float>(37, NAN), {37, 1}));
    for (const float value : activated(context(), activation, x).to_floats()) {
      ASSERT_TRUE(std::isnan(value)) << static_cast<int>(activation);
    }
  }
}

TEST_P(Ops, LayerNormAddsTheResidual) {
  for (const Index width : {1, 2, 15, 16, 17, 64, 100}) {
    for (const Index n : {1, 5, 33, 300}) {
      const Tensor w = input(random({width, 8}, 4)).to(DType::f32), b = random({width}, 5);
      const Tensor x = input(random({n, 8}, 6)), residual = input(random({n, width}, 7));
      const LayerNorm parameters = norm(width);
      const auto expected =
          plain_norm(sum(plain_linear(x, w, b), residual.to_floats()), width, parameters);
      const Tensor y = linear_add_norm(context(), x, packed(w, b), residual, parameters);
      EXPECT_TRUE(difference(y.to_floats(), expected) <= tolerance(1e-4)) << n << "x" << width;
      const Tensor unadded = linear_norm(context(), x, packed(w, b), parameters);
      EXPECT_TRUE(difference(unadded.to_floats(), plain_norm(plain_linear(x, w, b), width,
                                                             parameters)) <= tolerance(1e-4))
          << n << "x" << width;
      const Tensor alone = layer_norm(context(), residual, parameters);
      EXPECT_TRUE(difference(alone.to_floats(), plain_norm(residual.to_floats(), width,
                                                           parameters)) <= tolerance(1e-4));
    }
  }
}

TEST_P(Ops, FeedForwardIsUpActivationDownAndNorm) {
  for (const Index n : {1, 31, 257}) {
    const Index width = 24, wide = 72;
    const Tensor x = input(random({n, width}, 8));
    const Tensor up = input(random({wide, width}, 9, 0.2f)).to(DType::f32),
                 up_bias = random({wide}, 10);
    const Tensor down = input(random({width, wide}, 11, 0.2f)).to(DType::f32),
                 down_bias = random({width}, 12);
    const LayerNorm parameters = norm(width);
    const Tensor intermediate =
        Tensor::from(plain_linear(x, up, up_bias, Activation::gelu), {n, wide});
    const auto expected = plain_norm(
        sum(plain_linear(intermediate, down, down_bias), x.to_floats()), width, parameters);
    const FeedForward block = {packed(up, up_bias, Activation::gelu), packed(down, down_bias)};
    const Tensor y = feed_forward_add_norm(context(), x, block, parameters);
    EXPECT_TRUE(difference(y.to_floats(), expected) <= tolerance(1e-4)) << n;
  }
}

TEST_P(Ops, ProjectedHeadsAreHeadMajor) {
  const Index n = 37, heads = 3, d = 5, width = heads * d;
  const Tensor x = input(random({n, width}, 13));
  std::vector<Tensor> weights, biases;
  for (std::uint64_t part = 0; part < 3; ++part) {
    weights.push_back(input(random({width, width}, 14 + part, 0.3f)).to(DType::f32));
    biases.push_back(random({width}, 20 + part));
  }
  const auto parts =
      project_heads(context(), x, Linear(weights, biases, {.dtype = GetParam().dtype}), heads, d);
  ASSERT_EQ(parts.size(), 3u);
  for (std::size_t part = 0; part < 3; ++part) {
    const auto rows = plain_linear(x, weights[part], biases[part]);
    std::vector<float> expected;
    for (Index head = 0; head < heads; ++head) {
      for (Index i = 0; i < n; ++i) {
        for (Index c = 0; c < d; ++c)
          expected.push_back(rows[static_cast<std::size_t>(i * width + head * d + c)]);
      }
    }
    EXPECT_TRUE(difference(parts[part].to_floats(), expected) <= tolerance(2e-5));
  }
}

/// The numbers of the global projections of a test: apart from them, scale·B·A of an adapter.
kernels::LowRankMatrix addition_of(Index width, std::uint64_t seed) {
  return {.a = random({3, width}, seed, 0.3f), .b = random({width, 3}, seed + 1, 0.3f), .scale = 2};
}

/// A Longformer layer through the ops, against the scalar reference of the whole self-attention;
/// with additions of an adapter against merged matrices.
TEST_P(Ops, LongformerAttentionEqualsTheReference) {
  const Index heads = 2, d = 6, width = heads * d;
  for (const Index n : {1, 9, 40, 700}) {
    for (const Index globals : std::vector<Index>{0, 1, 3, 7, n}) {
      if (globals > n) continue;
      for (const bool is_adapted : {false, true}) {
        kernels::ReferenceLongformerAttention reference;
        reference.hidden = input(random({n, width}, 30));
        std::vector<Tensor> weights, biases;
        std::vector<kernels::LowRankMatrix> additions;
        for (auto* dense :
             {&reference.query, &reference.key, &reference.value, &reference.query_global,
              &reference.key_global, &reference.value_global}) {
          const auto seed = 40 + weights.size();
          weights.push_back(input(random({width, width}, seed, 0.3f)).to(DType::f32));
          biases.push_back(random({width}, seed + 10, 0.5f));
          *dense = {weights.back(), biases.back()};
          const bool is_global = weights.size() > 3;
          additions.push_back(is_adapted && is_global ? addition_of(width, seed + 20)
                                                      : kernels::LowRankMatrix());
          const auto& [a, b, scale] = additions.back();
          if (!a.empty()) dense->weight = merged(weights.back(), {.a = a, .b = b, .scale = scale});
        }
        const Index reach = 4;
        reference.heads.assign(heads, {reach, reach, 1});
        reference.kinds.assign(static_cast<std::size_t>(n), 1);
        for (Index i = 5; i < n; i += 11) reference.kinds[static_cast<std::size_t>(i)] = 0;
        for (Index i = 0; i < globals; ++i)
          reference.kinds[static_cast<std::size_t>(i * n / globals)] = 2;

        AttentionSpec spec = kernels::self_attention(n, heads, d, {reach, reach, 1});
        kernels::AttentionRows rows = *spec.rows;
        rows.key_mask.resize(static_cast<std::size_t>(n));
        for (Index i = 0; i < n; ++i) {
          const auto kind = reference.kinds[static_cast<std::size_t>(i)];
          rows.key_mask[static_cast<std::size_t>(i)] = kind != 0;
          if (kind == 2) rows.global_keys.push_back(i);
        }
        spec.rows = kernels::shared(std::move(rows));
        const auto parts =
            project_heads(context(), reference.hidden,
                          Linear(std::span(weights).first(3), std::span(biases).first(3),
                                 {.dtype = GetParam().dtype}),
                          heads, d);
        Tensor attended = attention(context(), spec, parts[0], parts[1], parts[2]);
        global_attention(context(), spec,
                         {.query_weight = weights[3],
                          .query_bias = biases[3],
                          .key_weight = weights[4],
                          .key_bias = biases[4],
                          .value_weight = weights[5],
                          .value_bias = biases[5],
                          .query_addition = additions[3],
                          .key_addition = additions[4],
                          .value_addition = additions[5]},
                         reference.hidden, attended);
        const auto expected = kernels::reference_longformer_attention<float>(reference);
        EXPECT_TRUE(difference(attended.to_floats(), expected) <= tolerance(3e-5))
            << "n " << n << " globals " << globals << (is_adapted ? ", adapted" : "");
      }
    }
  }
}

/// See Fused.ManyAlikeKeysDoNotAddUpTheirRounding: documents of nearly the same token everywhere.
TEST(GlobalAttention, ManyAlikeRowsDoNotAddUpTheirRounding) {
  const Index n = 16384, width = 16, d = 8;
  Tensor x = random({n, width}, 3, 0.0f);
  // One of the first two rows sets the maximum, so that the others weigh an odd number.
  for (Index i = 0; i < x.size(); ++i) {
    x.data<float>()[i] = i < width ? 1.0f : i < 2 * width ? 0.4f : 0.7f;
  }
  std::vector<Tensor> weights, biases;
  for (std::size_t i = 0; i < 3; ++i) {
    weights.push_back(random({width, width}, 50 + i, 0.3f));
    biases.push_back(random({width}, 60 + i, 0.5f));
  }
  MemoryPool memory;
  const Context context{.memory = memory, .dtype = DType::f32, .threads = 2};
  const Tensor query = Tensor::from(plain_linear(x, weights[0], biases[0]), {n, width});
  const Tensor key = Tensor::from(plain_linear(x, weights[1], biases[1]), {n, width});
  const Tensor value = Tensor::from(plain_linear(x, weights[2], biases[2]), {n, width});
  // Below and above the number of global tokens from which keys and values are projected.
  for (const Index globals : {2, 12}) {
    AttentionSpec spec = kernels::self_attention(n, 2, d, {1, 1, 1});
    kernels::AttentionRows rows = *spec.rows;
    for (Index i = 0; i < globals; ++i) rows.global_keys.push_back(i * 7);
    spec.rows = kernels::shared(std::move(rows));
    Tensor attended = memory.tensor({n, width}, DType::f32);
    global_attention(context, spec,
                     {.query_weight = weights[0],
                      .query_bias = biases[0],
                      .key_weight = weights[1],
                      .key_bias = biases[1],
                      .value_weight = weights[2],
                      .value_bias = biases[2]},
                     x, attended);
    for (const Index row : spec.rows->global_keys) {
      for (Index head = 0; head < 2; ++head) {
        std::vector<double> mean(d, 0.0);
        double denominator = 0;
        for (Index j = 0; j < n; ++j) {
          double score = 0;
          for (Index c = head * d; c < head * d + d; ++c)
            score += double{query.data<float>()[row * width + c]} *
                     key.data<float>()[j * width + c] / std::sqrt(static_cast<double>(d));
          const double weight = std::exp(score);
          denominator += weight;
          for (Index c = 0; c < d; ++c)
            mean[static_cast<std::size_t>(c)] +=
                weight * value.data<float>()[j * width + head * d + c];
        }
        for (Index c = 0; c < d; ++c) {
          EXPECT_NEAR(attended.data<float>()[row * width + head * d + c],
                      mean[static_cast<std::size_t>(c)] / denominator, 1e-5)
              << globals << " globals";
        }
      }
    }
  }
}

TEST_P(Ops, EmbeddingsAreSummedAndNormalised) {
  const Index width = 20, n = 45;
  EmbeddingTables tables{.words = random({30, width}, 60),
                         .positions = random({50, width}, 61).to(DType::bf16),
                         .types = random({2, width}, 62),
                         .norm = norm(width)};
  std::vector<std::int32_t> words, positions, types;
  for (std::int32_t i = 0; i < n; ++i) {
    words.push_back(i * 7 % 30);
    positions.push_back(49 - i);
    types.push_back(i % 2);
  }
  std::vector<float> expected;
  const auto word = tables.words.to_floats(), position = tables.positions.to_floats(),
             type = tables.types.to_floats();
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    for (std::size_t c = 0; c < static_cast<std::size_t>(width); ++c) {
      const auto at = [&](const std::vector<float>& table, std::int32_t row) {
        return table[static_cast<std::size_t>(row) * static_cast<std::size_t>(width) + c];
      };
      expected.push_back(at(word, words[i]) + at(position, positions[i]) + at(type, types[i]));
    }
  }
  const Tensor x =
      embed(context(), tables, {.words = words, .positions = positions, .types = types});
  EXPECT_TRUE(difference(x.to_floats(), plain_norm(expected, width, tables.norm)) <=
              tolerance(1e-5));
}

TEST_P(Ops, RowsAreSelectedAndFolded) {
  const Tensor x = input(Tensor::from(std::vector<float>{1, -2, 3, 4, 5, -6, 7, 8}, {4, 2}));
  EXPECT_EQ(select_rows(context(), x, std::vector<Index>{3, 0}).to_floats(),
            (std::vector<float>{7, 8, 1, -2}));
  const std::vector<RowRange> ranges = {{0, 4}, {1, 3}, {2, 2}};
  EXPECT_EQ(sum_rows(context(), x, ranges).to_floats(), (std::vector<float>{16, 4, 8, -2, 0, 0}));
  EXPECT_EQ(mean_rows(context(), x, std::span(ranges).first(2)).to_floats(),
            (std::vector<float>{4, 1, 4, -1}));
  EXPECT_EQ(max_rows(context(), x, std::span(ranges).first(2)).to_floats(),
            (std::vector<float>{7, 8, 5, 4}));
}

INSTANTIATE_TEST_SUITE_P(Precisions, Ops,
                         testing::Values(Case{DType::f32, 1}, Case{DType::f32, 2},
                                         Case{DType::bf16, 2}),
                         [](const auto& info) {
                           return std::string(name_of(info.param.dtype)) + "_threads" +
                                  std::to_string(info.param.threads);
                         });

TEST(RowBlocks, CoverAllRowsInFewSizes) {
  for (const int threads : {1, 2, 3, 8}) {
    for (const Index rows : {1, 15, 16, 17, 255, 256, 300, 512, 513, 4096, 5000}) {
      Index next = 0;
      const RowPlan plan = plan_rows(rows, threads);
      for (const RowBlock& block : plan.blocks) {
        EXPECT_EQ(block.begin, next);
        EXPECT_GE(block.rows, 1);
        EXPECT_LE(block.rows, kernels::kRowBlock);
        const Index unit = kernels::row_unit(plan.spread);
        EXPECT_TRUE(block.rows % unit == 0 || block.rows < unit);
        next += block.rows;
      }
      EXPECT_EQ(next, rows);
    }
  }
  EXPECT_TRUE(plan_rows(0, 2).blocks.empty());
}

// A document gets the same bits alone and in any batch.
TEST(PackedLinear, RowsDoNotDependOnTheirNumber) {
  constexpr Index kIn = 80, kMost = 64;
  for (const Index out : {3, 48, 101, 200}) {
    Tensor weight({out, kIn}, DType::f32), bias({out}, DType::f32);
    std::vector<float> x(kMost * kIn);
    for (Index i = 0; i < weight.size(); ++i) weight.data<float>()[i] = random_normal(1, at(i));
    for (Index i = 0; i < out; ++i) bias.data<float>()[i] = random_normal(2, at(i));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = random_normal(3, i);
    const kernels::PackedLinear dense(std::span(&weight, 1), std::span(&bias, 1), {});
    std::vector<float> all(at(kMost * out)), some(all.size());
    const auto run = [&](Index rows, bool all_threads, std::vector<float>& y) {
      dense.run(dense.kernel(rows, DType::f32, all_threads), x.data(), y.data());
    };
    run(kMost, false, all);
    for (Index rows = 1; rows <= kMost; ++rows) {
      for (const bool all_threads : {false, true}) {
        run(rows, all_threads, some);
        EXPECT_TRUE(std::equal(some.begin(), some.begin() + rows * out, all.begin()))
            << rows << " rows of " << out << (all_threads ? ", all threads" : "");
      }
    }
  }
}

TEST(DropElements, HaveTheirRateAndOneMaskForAnyBlocks) {
  // Longer than a row of the mask, and no multiple of anything.
  constexpr Index kCount = (Index{1} << 17) + 12345;
  constexpr double kRate = 0.2;
  const Dropout dropout = {.rate = static_cast<float>(kRate), .seed = 7};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::vector<float> ones(kCount, 1.0f);
    const auto dropped_by = [&](Index block, const Dropout& by) {
      Tensor y = Tensor::from(ones, {kCount}).to(dtype);
      for (Index first = 0; first < kCount; first += block) {
        Tensor part = y.slice_rows(first, std::min(block, kCount - first));
        kernels::drop(by, static_cast<std::uint64_t>(first), part.raw(), part.size(), dtype);
      }
      return y.to_floats();
    };
    const auto whole = dropped_by(kCount, dropout);
    EXPECT_EQ(dropped_by(1000, dropout), whole);
    Index dropped = 0, equal = 0;
    const auto other = dropped_by(kCount, {.rate = dropout.rate, .seed = 8});
    for (std::size_t i = 0; i < whole.size(); ++i) {
      ASSERT_TRUE(whole[i] == 0 || whole[i] == 1.25f);
      dropped += whole[i] == 0 ? 1 : 0;
      equal += whole[i] == other[i] ? 1 : 0;
    }
    const auto n = static_cast<double>(kCount);
    const double same = kRate * kRate + (1 - kRate) * (1 - kRate);
    EXPECT_TRUE(std::abs(static_cast<double>(dropped) / n - kRate) <= 5 * std::sqrt(0.16 / n));
    EXPECT_TRUE(std::abs(static_cast<double>(equal) / n - same) <= 5 * std::sqrt(0.25 / n));
  }
}

}  // namespace
}  // namespace longformer::ops::ops_test
