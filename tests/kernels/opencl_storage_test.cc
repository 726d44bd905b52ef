// Attention on a device whose queries, keys and values are stored in fp16.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "attention_testing.h"
#include "kernels/opencl/attention_buffers.h"
#include "opencl_testing.h"

namespace longformer::kernels::opencl_storage_test {
namespace {

class OpenclStorage : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_opencl()) GTEST_SKIP() << "no device of OpenCL (tools/packages.sh opencl)";
  }

  std::mt19937 random_{5};
};

/// The same numbers in fp32.
Inputs widened(const Inputs& in) {
  return {in.query.to(DType::f32), in.key.to(DType::f32), in.value.to(DType::f32)};
}

std::vector<float> rounded(std::vector<float> numbers) {
  for (float& number : numbers) number = static_cast<float>(BFloat16(number));
  return numbers;
}

/// bf16 numbers from 2^-17 on are fp16 numbers too: the same bits come out as of fp32.
void expect_same_bits(const AttentionSpec& spec, const Inputs& in) {
  const Result narrow = run(AttentionBackend::opencl, spec, in);
  const Result wide = run(AttentionBackend::opencl, spec, widened(in));
  EXPECT_EQ(max_difference(narrow.out, rounded(wide.out)), 0);
  EXPECT_EQ(max_difference(narrow.logsumexp, wide.logsumexp), 0);
}

TEST_F(OpenclStorage, ForwardPassesGiveTheBitsOfFp32) {
  constexpr int kSpecs = 8;
  for (int i = 0; i < kSpecs; ++i) {
    const AttentionSpec spec = random_spec(random_);
    Inputs in = random_inputs(spec, static_cast<unsigned>(i), DType::bf16);
    // Without those that fp16 rounds.
    for (Tensor* tensor : {&in.query, &in.key, &in.value}) {
      for (Index at = 0; at < tensor->size(); ++at) {
        BFloat16& number = tensor->data<BFloat16>()[at];
        if (std::abs(static_cast<float>(number)) < 0x1p-17f) number = BFloat16(0.0f);
      }
    }
    expect_same_bits(spec, in);
  }
}

/// Numbers beyond fp16 leave all in fp32; infinite ones and NaN are numbers of fp16.
TEST_F(OpenclStorage, LargeNumbersStayInFp32) {
  const AttentionSpec spec = self_attention(40, 2, 8, symmetric(5));
  for (const float number : {65504.0f, 65536.0f, -1e30f, INFINITY, std::nanf("")}) {
    for (int which = 0; which < 3; ++which) {
      Inputs in = random_inputs(spec, 3, DType::bf16);
      Tensor& tensor = which == 0 ? in.query : which == 1 ? in.key : in.value;
      tensor.data<BFloat16>()[77] = BFloat16(number);
      const Result narrow = run(AttentionBackend::opencl, spec, in);
      const Result wide = run(AttentionBackend::opencl, spec, widened(in));
      const std::vector<float> expected = rounded(wide.out);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (std::isnan(expected[i])) {
          EXPECT_TRUE(std::isnan(narrow.out[i])) << i;
        } else {
          EXPECT_EQ(narrow.out[i], expected[i]) << i;
        }
      }
    }
  }
}

TEST(OpenclRange, IsThatOfFp16) {
  const auto fits = [](float number) {
    return opencl::fits_half(Tensor::from(std::vector<float>{0, number}, {2}));
  };
  for (const float number : {0.0f, 1e-30f, 65504.0f, -65504.0f, INFINITY, -INFINITY, NAN}) {
    EXPECT_TRUE(fits(number)) << number;
  }
  for (const float number : {65505.0f, -65536.0f, 1e38f}) EXPECT_FALSE(fits(number)) << number;
}

TEST(OpenclRange, DecidesHowHeadsAreStored) {
  const Tensor small = random_tensor({1, 4, 2}, 1);
  Tensor large = small.copied();
  large.data<float>()[3] = 1e6f;
  const auto dtype = [&](const Tensor& value, bool narrow) {
    const AttentionInputs in = {small, small, value, small, nullptr, nullptr, nullptr, nullptr};
    return opencl::StoredHeads(in, narrow).value.dtype();
  };
  EXPECT_EQ(dtype(small, true), DType::f16);
  EXPECT_EQ(dtype(small, false), DType::f32);
  EXPECT_EQ(dtype(large, true), DType::f32);
}

TEST_F(OpenclStorage, GradientsGiveTheBitsOfFp32) {
  for (const Index reach : {3, 20}) {
    AttentionSpec spec = ragged({50, 1, 33}, 2, 20, symmetric(reach, 2));
    edit(spec).global_keys = {0};
    const Inputs in = random_inputs(spec, 9, DType::bf16), wide = widened(in);
    const Shape heads = in.query.shape(), rows = {heads[1], heads[0] * heads[2]};
    Tensor logsumexp = Tensor::zeros({heads[0], heads[1]}, DType::f32);
    Tensor out(rows, DType::bf16);
    attention(AttentionBackend::opencl, spec, {in.query, in.key, in.value, out, &logsumexp, 2});
    const Tensor slope = random_tensor(rows, 4, DType::bf16);
    const auto gradients = [&](const Inputs& from, DType dtype) {
      std::vector<Tensor> to;
      for (int i = 0; i < 3; ++i) to.emplace_back(heads, dtype);
      const Tensor typed_out = out.to(dtype), typed_slope = slope.to(dtype);
      attention_backward(AttentionBackend::opencl, spec,
                         {.query = from.query,
                          .key = from.key,
                          .value = from.value,
                          .out = typed_out,
                          .logsumexp = logsumexp,
                          .out_gradient = typed_slope,
                          .query_gradient = to[0],
                          .key_gradient = to[1],
                          .value_gradient = to[2],
                          .threads = 2});
      return to;
    };
    const std::vector<Tensor> narrow = gradients(in, DType::bf16);
    const std::vector<Tensor> exact = gradients(wide, DType::f32);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_LE(max_difference(narrow[i].to_floats(), rounded(exact[i].to_floats())), 1e-6) << i;
    }
  }
}

}  // namespace
}  // namespace longformer::kernels::opencl_storage_test
