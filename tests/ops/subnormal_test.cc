// No kernel computes with subnormal numbers where its inputs are of ordinary size: Intel CPUs take
// an assist of some 150 cycles for each. The sticky flags of MXCSR tell, on every x86 CPU.
//
// Reruns: isa
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "attention_training_testing.h"
#include "kernels/activation.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/normalization.h"
#include "kernels/optimizer_steps.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace longformer::subnormal_test {
namespace {

using kernels::Activation;
using kernels::AttentionBackend;
using kernels::AttentionSpec;

constexpr unsigned kDenormalOperand = 1u << 1;
constexpr unsigned kUnderflow = 1u << 4;

/// Which of the two flags the action sets on this thread.
std::string flags_of(const std::function<void()>& action) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before & ~(kDenormalOperand | kUnderflow));
  action();
  const unsigned after = _mm_getcsr();
  EXPECT_EQ(before | 0x3f, after | 0x3f) << "the rounding or flushing modes of the caller changed";
  std::string flags;
  if ((after & kDenormalOperand) != 0) flags += "subnormal operand ";
  if ((after & kUnderflow) != 0) flags += "underflow";
  return flags;
}

float volatile smallest_normal = 1.17549435e-38f;

TEST(Subnormals, FlagsAreSeen) {
  volatile float half = 0;
  EXPECT_EQ(flags_of([&] { half = smallest_normal * 0.3f; }), "underflow");
  EXPECT_EQ(flags_of([&] { half = half * 2.0f; }), "subnormal operand ");
  EXPECT_EQ(flags_of([&] { half = smallest_normal * 2.0f; }), "");
}

struct Case {
  std::string name;
  AttentionSpec spec;
};

std::vector<Case> cases() {
  using namespace kernels;
  const AttentionSpec band = self_attention(300, 2, 64, symmetric(48));
  const AttentionSpec pieces = ragged({70, 1, 0, 130, 33}, 2, 20, symmetric(9));
  std::vector<Case> all = {
      {"band", band},
      {"dense", self_attention(150, 2, 32, symmetric(kUnlimitedReach))},
      {"causal", causal(self_attention(260, 2, 64, previous(40)))},
      {"dilated", with_heads(band, {symmetric(20, 3), previous(9, 2)})},
      {"masked", masked(band, {0, 1, 2, 50, 51, 140, 298, 299})},
      {"ragged", pieces},
      {"ragged, masked", masked(pieces, {0, 3, 69, 70, 100, 233})},
      {"globals", with_globals(band, {0, 100, 299})},
      {"globals see everything", with_globals(band, {0, 7, 299}, GlobalQueries::see_everything)},
      {"dropout", with_dropout(band)},
      {"relative positions", with_positions(causal(self_attention(200, 2, 32, previous(40))))},
  };
  return all;
}

/// Queries so long that most scores lie far below the maximum.
void stretch(Tensor& queries, float factor) {
  std::vector<float> values = queries.to_floats();
  for (float& value : values) value *= factor;
  queries = Tensor::from(values, queries.shape()).to(queries.dtype());
}

void expect_forward_clean(const Case& c, DType dtype, float factor) {
  kernels::TrainingInputs x(c.spec, 1, dtype);
  stretch(x.in.query, factor);
  const kernels::RelativePositions relative = x.relative();
  for (const AttentionBackend backend : kernels::kBackends) {
    if (kernels::why_not(backend, c.spec)) continue;
    Tensor out = x.out, logsumexp = x.logsumexp;
    const std::string flags = flags_of([&] {
      kernels::attention(backend, c.spec,
                         {x.in.query, x.in.key, x.in.value, out, &logsumexp, 1,
                          c.spec.relative_positions ? &relative : nullptr});
    });
    EXPECT_EQ(flags, "") << c.name << ", " << kernels::name_of(backend) << ", " << name_of(dtype)
                         << ", queries times " << factor;
  }
}

TEST(Subnormals, AttentionForward) {
  for (const Case& c : cases()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const float factor : {1.0f, 30.0f}) expect_forward_clean(c, dtype, factor);
    }
  }
}

TEST(Subnormals, AttentionBackward) {
  for (const Case& c : cases()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const kernels::TrainingInputs x(c.spec, 1, dtype);
      const std::string flags = flags_of([&] { kernels::run_backward(c.spec, x, 1); });
      EXPECT_EQ(flags, "") << c.name << ", " << name_of(dtype);
    }
  }
}

/// −span … span in even steps.
std::vector<float> even_steps(float span, int count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    values[static_cast<std::size_t>(i)] =
        span * (2.0f * static_cast<float>(i) / static_cast<float>(count - 1) - 1);
  }
  return values;
}

TEST(Subnormals, Activations) {
  for (const auto activation :
       {Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu,
        Activation::tanh, Activation::quick_gelu, Activation::mish}) {
    std::vector<float> x = even_steps(30, 6007);
    std::vector<float> y = x, gradient(x.size(), 0.1f);
    const auto count = static_cast<Index>(x.size());
    const int number = static_cast<int>(activation);
    EXPECT_EQ(
        flags_of([&] { kernels::activate(activation, x.data(), y.data(), count, DType::f32); }), "")
        << "activation " << number;
    EXPECT_EQ(flags_of([&] {
                kernels::activation_backward(activation, x.data(), gradient.data(), count,
                                             DType::f32);
              }),
              "")
        << "gradient of activation " << number;
  }
}

TEST(Subnormals, CrossEntropy) {
  std::vector<float> logits = even_steps(80, 5003);
  EXPECT_EQ(flags_of([&] {
              kernels::softmax_cross_entropy(logits.data(), static_cast<Index>(logits.size()),
                                             {.label = 17, .smoothing = 0.1}, 1.0 / 4096);
            }),
            "");
}

TEST(Subnormals, LogSoftmax) {
  std::vector<float> logits = even_steps(80, 5003);
  EXPECT_EQ(
      flags_of([&] { kernels::log_softmax(logits.data(), static_cast<Index>(logits.size())); }),
      "");
}

TEST(Subnormals, LayerNorm) {
  constexpr Index kRows = 5, kColumns = 131;
  std::vector<float> x = even_steps(3, kRows * kColumns);
  std::vector<float> gamma(kColumns, 1.0f), beta(kColumns, 0.1f), out(x.size());
  // A row of equal numbers has the variance 0.
  for (Index c = 0; c < kColumns; ++c) x[static_cast<std::size_t>(c)] = 0.25f;
  const std::vector<float> input = x;
  EXPECT_EQ(flags_of([&] {
              kernels::add_layer_norm({.x = x.data(),
                                       .gamma = gamma.data(),
                                       .beta = beta.data(),
                                       .epsilon = 1e-12f,
                                       .rows = kRows,
                                       .columns = kColumns},
                                      out.data(), DType::f32);
            }),
            "");
  std::vector<float> gradient = even_steps(1, kRows * kColumns);
  EXPECT_EQ(flags_of([&] {
              kernels::layer_norm_backward({.x = input.data(),
                                            .gamma = gamma.data(),
                                            .epsilon = 1e-12f,
                                            .rows = kRows,
                                            .columns = kColumns},
                                           gradient.data(), DType::f32);
            }),
            "");
}

/// Moments of parameters whose gradient has become 0 shrink by the same factor in every step.
TEST(Subnormals, MomentsOfAdamWDecayToZero) {
  const Shape shape = {1000};
  Tensor value = kernels::random_tensor(shape, 1);
  Tensor gradient = kernels::random_tensor(shape, 2);
  Tensor mean = Tensor::zeros(shape, DType::f32), square = Tensor::zeros(shape, DType::f32);
  kernels::AdamWStep step = {.learning_rate = 1e-4, .weight_decay = 0.01};
  const auto take_step = [&] { kernels::adamw_step(value, gradient, mean, square, step); };
  EXPECT_EQ(flags_of(take_step), "");
  gradient = Tensor::zeros(shape, DType::f32);
  EXPECT_EQ(flags_of([&] {
              // 0.9 to the power of the step is subnormal itself from 6,700 on.
              for (step.step = 2; step.step <= 5000; ++step.step) take_step();
              for (int i = 0; i < 80000; ++i) take_step();
            }),
            "");
  EXPECT_EQ(mean.to_floats(), std::vector<float>(1000, 0.0f));
  EXPECT_EQ(square.to_floats(), std::vector<float>(1000, 0.0f));
}

}  // namespace
}  // namespace longformer::subnormal_test
#endif
