// Products of 8-bit whole numbers against plain loops, over odd sizes.
//
// Reruns: isa
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/cpu.h"
#include "kernels/elementwise.h"
#include "kernels/int8_rows.h"
#include "kernels/packed_linear.h"

namespace longformer::kernels::int8_test {
namespace {

using Numbers = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor drawn(std::mt19937& random, const Shape& shape, float size = 1) {
  Tensor tensor(shape, DType::f32);
  std::normal_distribution<float> normal(0, size);
  for (Index i = 0; i < tensor.size(); ++i) tensor.data<float>()[i] = normal(random);
  return tensor;
}

/// Whole numbers whose ends make every scale 1, so that sums are whole.
Tensor whole(std::mt19937& random, const Shape& shape, int least, int most) {
  Tensor tensor(shape, DType::f32);
  std::uniform_int_distribution<int> numbers(least, most);
  const Index columns = tensor.columns();
  for (Index i = 0; i < tensor.size(); ++i) {
    const int end = i % columns == 0 ? most : least;
    tensor.data<float>()[i] = static_cast<float>(i % columns < 2 ? end : numbers(random));
  }
  return tensor;
}

/// Rows of a matrix as plain loops quantize them; zeros are those of activations.
struct Quantized {
  std::vector<int> numbers;
  std::vector<int> zeros;
  Numbers scales;

  explicit Quantized(const Tensor& x, bool is_weight = false) {
    const Numbers values = x.to_floats();
    for (Index row = 0; row < x.rows(); ++row) {
      const auto begin = values.begin() + row * x.columns(), end = begin + x.columns();
      const bool is_finite = std::all_of(begin, end, [](float v) { return std::isfinite(v); });
      const float least = std::min(0.0f, *std::min_element(begin, end));
      const float most = std::max(is_weight ? -least : 0.0f, *std::max_element(begin, end));
      float scale = is_weight ? most / 127 : (most - least) / 255;
      if (std::isinf(scale)) scale = most / 255 - least / 255;
      const bool counts = is_finite && scale >= 0x1p-100f;
      scales.push_back(!is_finite ? kNan : counts ? scale : 0);
      const float factor = is_weight ? 127 / most : 1 / scale;
      zeros.push_back(counts && !is_weight ? static_cast<int>(std::nearbyint(-least * factor)) : 0);
      for (auto value = begin; value != end; ++value) {
        const int number =
            counts ? static_cast<int>(std::nearbyint(*value * factor)) + zeros.back() : 0;
        numbers.push_back(is_weight ? number : std::clamp(number, 0, 255));
      }
    }
  }
};

/// y before the activation.
Numbers product(const Tensor& x, const Tensor& weight, const Tensor* bias) {
  const Quantized a(x), b(weight, true);
  const Index in = x.columns();
  Numbers y;
  for (Index row = 0; row < x.rows(); ++row) {
    for (Index out = 0; out < weight.rows(); ++out) {
      std::int32_t sum = 0;
      for (Index k = 0; k < in; ++k) {
        sum += (a.numbers[at(row * in + k)] - a.zeros[at(row)]) * b.numbers[at(out * in + k)];
      }
      const float scaled = static_cast<float>(sum) * a.scales[at(row)];
      y.push_back(
          std::fma(scaled, b.scales[at(out)], bias == nullptr ? 0.0f : bias->data<float>()[out]));
    }
  }
  return y;
}

Tensor run(const PackedLinear& layer, const Tensor& x, DType output, bool all_threads) {
  const PackedLinear::Kernel& kernel = layer.kernel(x.rows(), output, all_threads);
  EXPECT_FALSE(layer.implementation(kernel).starts_with("ref")) << layer.implementation(kernel);
  const Tensor source = x.to(layer.dtype());
  Tensor y({x.rows(), layer.out_features()}, output);
  layer.run(kernel, source.raw(), y.raw());
  return y;
}

PackedLinear packed(const Tensor& weight, const Tensor* bias, PackedLinearOptions options) {
  options.int8 = true;
  return {std::span(&weight, 1), std::span(bias, bias == nullptr ? 0 : 1), options};
}

TEST(Int8Rows, EqualPlainLoops) {
  std::mt19937 random(1);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Index columns : {1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 767, 768}) {
      Tensor x = drawn(random, {9, columns}, 100).to(dtype).to(DType::f32);
      const auto set = [&](Index row, float value) {
        for (Index c = 0; c < columns; ++c) x.data<float>()[row * columns + c] = value;
      };
      set(1, 0);
      set(2, -0.0f);
      set(3, 1e-38f);
      set(4, 3e38f);
      set(8, -3e38f);
      x.data<float>()[8 * columns] = 3e38f;
      x.data<float>()[5 * columns + columns - 1] = kNan;
      x.data<float>()[6 * columns + columns / 2] = -kInfinity;
      x.data<float>()[7 * columns] = kInfinity;
      const Tensor source = x.to(dtype);
      const Quantized expected(source.to(DType::f32));
      std::vector<std::uint8_t> numbers(at(x.size()), 77);
      std::vector<std::int32_t> zeros(9, 77);
      Numbers scales(9, 77);
      quantize_rows(source.raw(), dtype, 9, columns,
                    {.numbers = numbers.data(), .scales = scales.data(), .zeros = zeros.data()});
      EXPECT_TRUE(std::equal(zeros.begin(), zeros.end(), expected.zeros.begin()));
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        ASSERT_EQ(numbers[i], expected.numbers[i]) << columns << " columns, " << i;
      }
      for (std::size_t row = 0; row < 9; ++row) {
        if (std::isnan(expected.scales[row])) {
          EXPECT_TRUE(std::isnan(scales[row])) << row;
        } else {
          EXPECT_EQ(scales[row], expected.scales[row]) << row;
        }
      }
    }
  }
}

class Int8Products : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_int8_products()) GTEST_SKIP() << "this CPU has no products of 8-bit whole numbers";
  }

  std::mt19937 random_{2};
};

TEST_F(Int8Products, SumsEqualPlainLoopsBitForBit) {
  constexpr int kShapes = 80;
  const std::vector<Index> sizes = {1,  2,  3,  5,  7,   15,  16,  17,  31,  33,
                                    48, 63, 64, 65, 100, 127, 128, 384, 769, 1027};
  const auto size = [&](Index most) {
    Index drawn = most + 1;
    while (drawn > most) drawn = sizes[random_() % sizes.size()];
    return drawn;
  };
  for (int shape = 0; shape < kShapes; ++shape) {
    const Index rows = size(128), in = size(1027), out = size(384);
    const Tensor weight = whole(random_, {out, in}, -127, 127),
                 x = whole(random_, {rows, in}, -128, 127);
    const PackedLinear layer = packed(weight, nullptr, {});
    const Numbers expected = product(x, weight, nullptr);
    for (const bool all_threads : {false, true}) {
      const Tensor y = run(layer, x, DType::f32, all_threads);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), y.data<float>()))
          << rows << " rows of " << in << " to " << out;
    }
  }
}

TEST_F(Int8Products, ScalesAndBiasesEqualPlainLoops) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Index in : {1, 31, 768}) {
      for (const Index out : {7, 16, 33}) {
        const Tensor weight = drawn(random_, {out, in}, 0.05f), bias = drawn(random_, {out});
        const PackedLinear layer = packed(weight, &bias, {.dtype = dtype});
        for (const Index rows : {1, 19}) {
          const Tensor x = drawn(random_, {rows, in}, 3).to(dtype).to(DType::f32);
          const Numbers expected = product(x, weight, &bias);
          for (const bool all_threads : {false, true}) {
            const Tensor y = run(layer, x, DType::f32, all_threads);
            ASSERT_TRUE(std::equal(expected.begin(), expected.end(), y.data<float>()))
                << rows << " rows of " << in << " to " << out;
            const Numbers narrow = run(layer, x, DType::bf16, all_threads).to_floats();
            for (std::size_t i = 0; i < expected.size(); ++i) {
              ASSERT_EQ(narrow[i], static_cast<float>(BFloat16(expected[i])));
            }
          }
        }
      }
    }
  }
}

TEST_F(Int8Products, ActivationsAreApplied) {
  for (const Activation activation :
       {Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu,
        Activation::quick_gelu, Activation::tanh, Activation::mish}) {
    const Tensor weight = drawn(random_, {37, 40}, 0.2f), bias = drawn(random_, {37});
    const Tensor x = drawn(random_, {5, 40});
    Numbers expected = product(x, weight, &bias);
    for (float& value : expected) activate(activation, &value, &value, 1, DType::f32);
    const Numbers found =
        run(packed(weight, &bias, {.activation = activation}), x, DType::f32, false).to_floats();
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-6);
  }
}

TEST_F(Int8Products, RowsOfZerosAreTheBias) {
  const Tensor weight = drawn(random_, {20, 33}), bias = drawn(random_, {20});
  const Tensor x = Tensor::zeros({3, 33}, DType::f32);
  const Tensor y = run(packed(weight, &bias, {}), x, DType::f32, false);
  for (Index i = 0; i < y.size(); ++i) EXPECT_EQ(y.data<float>()[i], bias.data<float>()[i % 20]);
}

TEST_F(Int8Products, RowsThatAreNotFiniteBecomeNan) {
  const Tensor weight = drawn(random_, {20, 33}), bias = drawn(random_, {20});
  for (const float value : {kNan, kInfinity, -kInfinity}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Tensor x = drawn(random_, {3, 33});
      const PackedLinear layer =
          packed(weight, &bias, {.dtype = dtype, .activation = Activation::gelu});
      const Numbers before = run(layer, x, dtype, false).to_floats();
      x.data<float>()[33 + 7] = value;
      const Numbers y = run(layer, x, dtype, false).to_floats();
      for (std::size_t i = 0; i < y.size(); ++i) {
        if (i / 20 == 1) {
          EXPECT_TRUE(std::isnan(y[i])) << i;
        } else {
          EXPECT_EQ(y[i], before[i]) << i;
        }
      }
    }
  }
}

TEST_F(Int8Products, WeightsThatAreNotFiniteMakeTheirColumnNan) {
  Tensor weight = drawn(random_, {20, 33});
  weight.data<float>()[4 * 33 + 1] = kInfinity;
  weight.data<float>()[9 * 33 + 32] = kNan;
  const Numbers y =
      run(packed(weight, nullptr, {}), drawn(random_, {2, 33}), DType::f32, false).to_floats();
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(std::isnan(y[i]), i % 20 == 4 || i % 20 == 9) << i;
  }
}

TEST_F(Int8Products, NumbersOfQuantizedWeightsStay) {
  const Tensor weight = drawn(random_, {64, 96}, 0.03f);
  const Quantized once(weight, true);
  Tensor again(weight.shape(), DType::f32);
  for (Index i = 0; i < again.size(); ++i) {
    again.data<float>()[i] = static_cast<float>(once.numbers[at(i)]) * once.scales[at(i / 96)];
  }
  const Quantized twice(again, true);
  EXPECT_EQ(once.numbers, twice.numbers);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_FLOAT_EQ(once.scales[i], twice.scales[i]);
}

TEST_F(Int8Products, AdditionsOfAdaptersAreNotQuantized) {
  const Tensor weight = drawn(random_, {48, 40}, 0.1f), bias = drawn(random_, {48});
  const Tensor a = drawn(random_, {4, 40}), b = drawn(random_, {48, 4});
  const PackedLinear base = packed(weight, &bias, {.activation = Activation::gelu});
  const LowRankProduct addition = {.a = a, .b = b, .scale = 0.5f};
  const PackedLinear layer(base, {}, std::span(&addition, 1));
  const Tensor x = drawn(random_, {7, 40});
  const Numbers plain = product(x, weight, &bias);
  const Numbers y = run(layer, x, DType::f32, false).to_floats();
  for (Index i = 0; i < 7 * 48; ++i) {
    double sum = 0;
    for (Index r = 0; r < 4; ++r) {
      double inner = 0;
      for (Index k = 0; k < 40; ++k) {
        inner += double{a.data<float>()[r * 40 + k]} * x.data<float>()[i / 48 * 40 + k];
      }
      sum += b.data<float>()[i % 48 * 4 + r] * inner;
    }
    auto expected = static_cast<float>(plain[at(i)] + 0.5 * sum);
    activate(Activation::gelu, &expected, &expected, 1, DType::f32);
    ASSERT_NEAR(y[at(i)], expected, 1e-4);
  }
}

}  // namespace
}  // namespace longformer::kernels::int8_test
