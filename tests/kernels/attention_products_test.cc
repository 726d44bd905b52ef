// Fused attention by products of tiles on every CPU, whether it would be chosen there or not:
// against the double-precision scalar reference, forward and backward.
//
// Reruns: tsan isa
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "attention_training_testing.h"
#include "kernels/attention/products.h"
#include "kernels/gemm.h"
#include "kernels/packed_linear.h"

namespace longformer::kernels::attention_products_test {
namespace {

// Largest differences seen: 9.1e-3 of values of up to 4 in size, logsumexp 7.5e-5.
constexpr double kOut = 1.2e-2;
constexpr double kLogsumexp = 3e-4;
/// Share of the largest gradient of a tensor; seen: 7.1e-3.
constexpr double kGradient = 1.5e-2;

struct Case {
  std::string name;
  AttentionSpec spec;
};

/// Edges of tiles and blocks on either side, and every kind of pattern that products know.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Index n : {1, 2, 63, 64, 65, 127, 128, 129, 300, 700}) {
    for (const Index reach : {Index{0}, Index{5}, Index{64}, Index{200}, kUnlimitedReach}) {
      all.push_back(
          {fmt::format("n {}, reach {}", n, reach), self_attention(n, 2, 16, symmetric(reach))});
    }
    all.push_back({fmt::format("n {}, causal", n), causal(self_attention(n, 2, 32, previous(40)))});
  }
  for (const Index head_size : {1, 3, 8, 20, 64, 80, 128}) {
    all.push_back({fmt::format("head size {}", head_size),
                   with_globals(self_attention(150, 2, head_size, symmetric(9)), {0, 75})});
  }
  const AttentionSpec band = self_attention(500, 2, 32, symmetric(30));
  const AttentionSpec pieces = ragged({70, 1, 0, 330, 33}, 3, 24, symmetric(12));
  const std::vector<Case> kinds = {
      {"longer than a block", self_attention(2600, 1, 16, symmetric(kUnlimitedReach))},
      {"dilated", with_heads(band, {symmetric(20, 3), previous(9, 2)})},
      {"dilated, mixed", with_heads(band, {{4, 1, 5}, symmetric(3, 400)})},
      {"masked", masked(band, {0, 1, 2, 50, 51, 140, 498, 499})},
      {"ragged", pieces},
      {"ragged, masked", masked(pieces, {0, 3, 69, 70, 100, 433})},
      {"globals", with_globals(band, {0, 100, 499})},
      {"many globals", with_globals(band, all_rows(150))},
      {"globals see everything", with_globals(band, {0, 7, 499}, GlobalQueries::see_everything)},
      {"twelve globals see everything",
       with_globals(band, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 499}, GlobalQueries::see_everything)},
      {"globals, masked, ragged", masked(with_globals(pieces, {0, 71, 200}), {1, 72, 201})},
      {"globals, dilated",
       with_globals(with_heads(band, {symmetric(20, 3), previous(9, 2)}), {3, 4})},
      {"globals, causal", with_globals(causal(band), {0, 200})},
      {"dropout", with_dropout(band)},
      {"dropout, dilated, masked, globals",
       with_dropout(masked(
           with_globals(with_heads(band, {symmetric(20, 3), previous(9, 2)}), {3, 40}), {7, 90}))},
      {"cross-attention",
       with_documents(with_heads(band, {symmetric(12), previous(12)}), {{.query_begin = 0,
                                                                         .query_count = 130,
                                                                         .key_begin = 0,
                                                                         .key_count = 210,
                                                                         .query_offset = 40},
                                                                        {.query_begin = 130,
                                                                         .query_count = 20,
                                                                         .key_begin = 210,
                                                                         .key_count = 90,
                                                                         .query_offset = -5}})},
      {"global keys alone",
       with_globals(with_documents(with_heads(band, {symmetric(0)}), {{.query_begin = 0,
                                                                       .query_count = 300,
                                                                       .key_begin = 0,
                                                                       .key_count = 300,
                                                                       .query_offset = 300},
                                                                      {.query_begin = 300,
                                                                       .query_count = 90,
                                                                       .key_begin = 300,
                                                                       .key_count = 90,
                                                                       .query_offset = 90}}),
                    {3, 40, 41, 42, 250, 299, 300, 389})},
  };
  all.insert(all.end(), kinds.begin(), kinds.end());
  return all;
}

TEST(Products, ForwardAsTheReference) {
  unsigned seed = 1;
  for (const auto& [name, spec] : cases()) {
    const TrainingInputs x(spec, ++seed, DType::bf16);
    ASSERT_FALSE(why_not_products(spec, DType::bf16)) << name;
    for (const int threads : {1, 2}) {
      Tensor out = unwritten(x.out), logsumexp = unwritten(x.logsumexp);
      attention_products(spec, {x.in.query, x.in.key, x.in.value, out, &logsumexp, threads});
      const double difference = max_difference(out.to_floats(), x.truth.out);
      EXPECT_TRUE(difference <= kOut) << name << ": out off by " << difference;
      const double sums = max_difference(logsumexp.to_floats(), x.truth.logsumexp);
      EXPECT_TRUE(sums <= kLogsumexp) << name << ": logsumexp off by " << sums;
    }
  }
}

void expect_close(const std::vector<float>& found, const std::vector<float>& expected,
                  const std::string& what) {
  double largest = 1e-3;
  for (const float x : expected) largest = std::max(largest, std::abs(double{x}));
  const double difference = max_difference(found, expected);
  EXPECT_TRUE(difference <= kGradient * largest)
      << what << ": off by " << difference << " of " << largest;
}

TEST(Products, BackwardAsTiles) {
  unsigned seed = 1;
  for (const auto& [name, spec] : cases()) {
    const TrainingInputs x(spec, ++seed, DType::bf16);
    // Tiles in fp32 are held against finite differences of the reference by their own tests.
    TrainingInputs wide = x;
    for (Tensor* tensor :
         {&wide.in.query, &wide.in.key, &wide.in.value, &wide.out, &wide.out_gradient}) {
      *tensor = tensor->to(DType::f32);
    }
    const Gradients expected = run_backward(spec, wide, 1, {BackwardForm::tiles});
    for (const int threads : {1, 2, 7}) {
      const Gradients found = run_backward(spec, x, threads, {BackwardForm::products});
      expect_close(found.query, expected.query, name + ", queries");
      expect_close(found.key, expected.key, name + ", keys");
      expect_close(found.value, expected.value, name + ", values");
    }
  }
}

TEST(Products, SameBitsEveryTimeAndForEveryNumberOfThreads) {
  const AttentionSpec spec = with_globals(self_attention(700, 3, 32, symmetric(40)), {0, 90});
  const TrainingInputs x(spec, 5, DType::bf16);
  const auto forward = [&](int threads) {
    Tensor out = unwritten(x.out);
    attention_products(spec, {x.in.query, x.in.key, x.in.value, out, nullptr, threads});
    return out.to_floats();
  };
  EXPECT_EQ(forward(2), forward(2));
  EXPECT_EQ(run_backward(spec, x, 2, {BackwardForm::products}).key,
            run_backward(spec, x, 2, {BackwardForm::products}).key);
}

/// Contents of masked rows are undefined.
TEST(Products, MaskedRowsMayHoldNaN) {
  const AttentionSpec spec = masked(self_attention(300, 2, 16, symmetric(40)), {0, 70, 71, 299});
  const TrainingInputs clean(spec, 9, DType::bf16);
  TrainingInputs dirty = clean;
  for (Tensor* tensor : {&dirty.in.query, &dirty.in.key, &dirty.in.value}) {
    *tensor = tensor->to(DType::f32).to(DType::bf16);
    Tensor wide = tensor->to(DType::f32);
    for (Index head = 0; head < 2; ++head) {
      for (const Index row : {0, 70, 71, 299}) {
        std::fill_n(wide.data<float>() + (head * 300 + row) * 16, 16, std::nanf(""));
      }
    }
    *tensor = wide.to(DType::bf16);
  }
  Tensor expected = unwritten(clean.out), out = unwritten(clean.out);
  attention_products(spec, {clean.in.query, clean.in.key, clean.in.value, expected, nullptr, 1});
  attention_products(spec, {dirty.in.query, dirty.in.key, dirty.in.value, out, nullptr, 1});
  EXPECT_EQ(out.to_floats(), expected.to_floats());
  const Gradients from_clean = run_backward(spec, clean, 1, {BackwardForm::products});
  const Gradients from_dirty = run_backward(spec, dirty, 1, {BackwardForm::products});
  EXPECT_EQ(from_dirty.query, from_clean.query);
  EXPECT_EQ(from_dirty.key, from_clean.key);
  EXPECT_EQ(from_dirty.value, from_clean.value);
}

TEST(Products, SayWhyNot) {
  const AttentionSpec band = self_attention(10, 1, 8, symmetric(2));
  EXPECT_FALSE(why_not_products(band, DType::bf16));
  EXPECT_NE(why_not_products(band, DType::f32), std::nullopt);
  EXPECT_NE(why_not_products(with_positions(causal(band)), DType::bf16), std::nullopt);
}

/// y = x·Wᵀ + b by a plain loop.
std::vector<float> plain_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  std::vector<float> y;
  const std::vector<float> a = x.to_floats(), w = weight.to_floats(), b = bias.to_floats();
  const Index in = weight.columns(), out = weight.rows();
  for (Index row = 0; row < x.rows(); ++row) {
    for (Index c = 0; c < out; ++c) {
      double sum = b[at(c)];
      for (Index i = 0; i < in; ++i) sum += double{a[at(row * in + i)]} * double{w[at(c * in + i)]};
      y.push_back(static_cast<float>(sum));
    }
  }
  return y;
}

/// A matrix [rows, columns] in slabs, and back.
std::vector<float> in_slabs(const std::vector<float>& matrix, Index rows, Index columns,
                            Index slabs, bool back) {
  std::vector<float> result(matrix.size());
  const Index width = columns / slabs;
  for (Index row = 0; row < rows; ++row) {
    for (Index c = 0; c < columns; ++c) {
      const Index plain = row * columns + c;
      const Index slab = c / width * rows * width + row * width + c % width;
      result[at(back ? plain : slab)] = matrix[at(back ? slab : plain)];
    }
  }
  return result;
}

TEST(LinearSlabs, GiveTheSameNumbers) {
  const Index rows = 16, narrow = 24, wide = 48;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = random_tensor({rows, narrow}, 1, dtype);
    const Tensor up = random_tensor({wide, narrow}, 2), down = random_tensor({narrow, wide}, 3);
    const Tensor up_bias = random_tensor({wide}, 4), down_bias = random_tensor({narrow}, 5);
    const double tolerance = dtype == DType::f32 ? 1e-4 : 0.2;
    for (const Index slabs : {1, 2, 3}) {
      const PackedLinear first(std::span(&up, 1), std::span(&up_bias, 1),
                               {.dtype = dtype, .slabs = {.out = slabs}});
      Tensor y({rows, wide}, dtype);
      first.run(first.kernel(rows, dtype), x.raw(), y.raw());
      const auto found = in_slabs(y.to_floats(), rows, wide, slabs, true);
      EXPECT_TRUE(max_difference(found, plain_linear(x, up, up_bias)) <= tolerance) << slabs;

      const Tensor hidden = random_tensor({rows, wide}, 6, dtype);
      const Tensor laid =
          Tensor::from(in_slabs(hidden.to_floats(), rows, wide, slabs, false), {rows, wide})
              .to(dtype);
      const PackedLinear second(std::span(&down, 1), std::span(&down_bias, 1),
                                {.dtype = dtype, .slabs = {.in = slabs}});
      Tensor z({rows, narrow}, DType::f32);
      second.run(second.kernel(rows, DType::f32), laid.raw(), z.raw());
      EXPECT_TRUE(max_difference(z.to_floats(), plain_linear(hidden, down, down_bias)) <= tolerance)
          << slabs;
    }
  }
}

}  // namespace
}  // namespace longformer::kernels::attention_products_test
