// Products of matrices of many sizes, strides and transpositions against plain loops. oneDNN serves
// each kind by other code, on each instruction set and in each of its versions.
//
// Reruns: isa
#include "kernels/gemm.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace longformer::kernels::gemm_test {
namespace {

struct Stored {
  std::vector<float> values;
  Index stride = 0;

  float at(Index row, Index column, bool transposed) const {
    const Index index = transposed ? column * stride + row : row * stride + column;
    return values[static_cast<std::size_t>(index)];
  }
};

class Products : public testing::TestWithParam<std::string> {
 protected:
  Index drawn(std::initializer_list<Index> from) {
    return *(from.begin() +
             std::uniform_int_distribution<int>(0, static_cast<int>(from.size()) - 1)(random_));
  }

  Index size() {
    return drawn({1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65});
  }

  /// A matrix as it is stored; bf16 holds each of its numbers.
  Stored matrix(Index rows, Index columns) {
    const Index stride = columns + drawn({0, 0, 1, 3, 8});
    Stored stored{std::vector<float>(static_cast<std::size_t>(rows * stride)), stride};
    for (float& value : stored.values) {
      value = static_cast<float>(std::uniform_int_distribution<int>(-8, 8)(random_)) / 8.0f;
    }
    return stored;
  }

  GemmShape shape() {
    GemmShape shape{.m = size(), .n = size(), .k = size()};
    shape.transpose_a = drawn({0, 1}) == 1;
    shape.transpose_b = drawn({0, 1}) == 1;
    shape.beta = static_cast<float>(drawn({0, 1}));
    return shape;
  }

  static std::vector<BFloat16> rounded(const std::vector<float>& values) {
    std::vector<BFloat16> result;
    for (const float value : values) result.push_back(BFloat16(value));
    return result;
  }

  static std::string described(const GemmShape& s) {
    return "m " + std::to_string(s.m) + ", n " + std::to_string(s.n) + ", k " +
           std::to_string(s.k) + (s.transpose_a ? ", A transposed" : "") +
           (s.transpose_b ? ", B transposed" : "") + ", strides " + std::to_string(s.lda) + " " +
           std::to_string(s.ldb) + " " + std::to_string(s.ldc) + ", beta " + std::to_string(s.beta);
  }

  std::mt19937 random_{7};
};

TEST_P(Products, EqualPlainLoops) {
  constexpr int kProducts = 1500;
  for (int number = 0; number < kProducts; ++number) {
    GemmShape s = shape();
    const Stored a = s.transpose_a ? matrix(s.k, s.m) : matrix(s.m, s.k);
    const Stored b = s.transpose_b ? matrix(s.n, s.k) : matrix(s.k, s.n);
    Stored c = matrix(s.m, s.n);
    s.lda = a.stride, s.ldb = b.stride, s.ldc = c.stride;
    const Stored before = c;
    if (GetParam() == "fp32") {
      gemm(s, a.values.data(), b.values.data(), c.values.data());
    } else if (GetParam() == "bf16_to_fp32") {
      gemm(s, rounded(a.values).data(), rounded(b.values).data(), c.values.data());
    } else {
      std::vector<BFloat16> found = rounded(c.values);
      gemm(s, rounded(a.values).data(), rounded(b.values).data(), found.data());
      for (std::size_t i = 0; i < found.size(); ++i) c.values[i] = static_cast<float>(found[i]);
    }
    // Sums of at most 65 numbers of at most 1; all but the result in bf16 is exact in fp32.
    const double tolerance = GetParam() == "bf16" ? 1.0 / 128 : 1e-5;
    for (Index i = 0; i < s.m; ++i) {
      for (Index j = 0; j < c.stride && i * c.stride + j < std::ssize(c.values); ++j) {
        double expected = j < s.n ? static_cast<double>(s.beta) * before.at(i, j, false)
                                  : static_cast<double>(before.at(i, j, false));
        for (Index k = 0; j < s.n && k < s.k; ++k) {
          expected += static_cast<double>(a.at(i, k, s.transpose_a)) * b.at(k, j, s.transpose_b);
        }
        ASSERT_TRUE(std::abs(c.at(i, j, false) - expected) <=
                    tolerance * std::max(1.0, std::abs(expected)))
            << described(s) << ": row " << i << ", column " << j << ": " << c.at(i, j, false)
            << ", expected " << expected;
      }
    }
  }
}

/// A block of terms is summed by itself, so that equal terms do not round one after another.
TEST(SumsOfProducts, BlocksOfALongSumDoNotAddUpTheirRounding) {
  constexpr Index kTerms = 256, kBlocks = 64;
  for (const auto& [m, n] : {std::pair<Index, Index>{4, 16},
                             {1, 1},
                             {1, 16},
                             {16, 1},
                             {2, 2},
                             {3, 33},
                             {1, 768},
                             {64, 48}}) {
    const std::vector<float> a(static_cast<std::size_t>(m * kTerms), 0.7f);
    const std::vector<float> b(static_cast<std::size_t>(n * kTerms), 0.9f);
    std::vector<float> c(static_cast<std::size_t>(m * n), 0.0f);
    for (Index block = 0; block < kBlocks; ++block) {
      gemm({.m = m, .n = n, .k = kTerms, .beta = 1}, a.data(), b.data(), c.data());
    }
    const double sum = double{0.7f} * double{0.9f} * kTerms * kBlocks;
    for (const float found : c) {
      ASSERT_LE(std::abs(found / sum - 1), 2e-5) << m << " × " << n;
    }
  }
}

/// A training on documents of all lengths multiplies thousands of shapes.
TEST(SumsOfProducts, ManyShapesTakeNoMoreMemory) {
  constexpr Index kColumns = 64;
  const std::vector<BFloat16> a(at(kColumns * 4096)), b(at(kColumns * kColumns));
  std::vector<float> c(at(kColumns * 4096));
  const auto multiply_shapes = [&](Index first, Index last) {
    for (Index m = first; m < last; ++m) {
      gemm({.m = m, .n = kColumns, .k = kColumns}, a.data(), b.data(), c.data());
    }
  };
  multiply_shapes(2, 1400);
  // Sanitizers keep freed memory for a while, and count nothing here.
  const auto used = [] { return mallinfo2().uordblks; };
  const std::size_t before = used();
  multiply_shapes(1400, 3200);
  EXPECT_LE(used(), before + (std::size_t{8} << 20));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Products, testing::Values("fp32", "bf16_to_fp32", "bf16"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace longformer::kernels::gemm_test
