// Activations and gated layers against their definitions in double, over small and large numbers
// and every remainder of a vector: compilers differ in what they make of blends.
//
// Reruns: tsan isa
#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "activation_truth.h"
#include "core/dtype.h"
#include "core/tensor.h"

namespace longformer::elementwise_test {
namespace {

using kernels::Activation;

double slope_truth(double x, Activation activation) {
  const double step = 1e-5 * std::max(1.0, std::abs(x));
  return (activation_truth(x + step, activation) - activation_truth(x - step, activation)) /
         (2 * step);
}

class Elementwise : public testing::TestWithParam<DType> {
 protected:
  Tensor tensor(const std::vector<float>& values) const {
    const Tensor exact = Tensor::from(values, {static_cast<Index>(values.size())});
    return GetParam() == DType::f32 ? exact : exact.to(GetParam());
  }
  double tolerance(double truth) const {
    return (GetParam() == DType::f32 ? 3e-6 : 1.0 / 256) * std::max(1.0, std::abs(truth));
  }
};

TEST_P(Elementwise, ActivationsAndSlopesAreThoseOfDouble) {
  for (const Activation activation : kActivations) {
    for (const Index count : {Index{1}, Index{7}, Index{15}, Index{16}, Index{33}, Index{4001}}) {
      const Tensor x = tensor(activation_places(count));
      Tensor y({count}, GetParam());
      kernels::activate(activation, x.raw(), y.raw(), count, GetParam());
      Tensor gradient = tensor(std::vector<float>(static_cast<std::size_t>(count), 1.0f));
      kernels::activation_backward(activation, x.raw(), gradient.raw(), count, GetParam());
      const std::vector<float> at = x.to_floats(), values = y.to_floats(),
                               slopes = gradient.to_floats();
      for (std::size_t i = 0; i < at.size(); ++i) {
        const double value = activation_truth(at[i], activation);
        ASSERT_TRUE(std::abs(values[i] - value) <= tolerance(value))
            << static_cast<int>(activation) << " of " << at[i] << " is " << values[i];
        const double slope = slope_truth(at[i], activation);
        ASSERT_TRUE(std::abs(slopes[i] - slope) <= tolerance(slope) + 1e-5)
            << static_cast<int>(activation) << " has the slope " << slopes[i] << " at " << at[i];
      }
    }
  }
}

TEST_P(Elementwise, GatedRowsAreThoseOfDouble) {
  constexpr Index kRows = 3, kColumns = 37;
  const Tensor x = tensor(activation_places(kRows * 2 * kColumns));
  const std::vector<float> at = x.to_floats();
  for (const Activation activation : kActivations) {
    const kernels::GatedRows gated = {activation, x.raw(), kColumns, kRows, kColumns, 2 * kColumns};
    Tensor y({kRows * kColumns}, GetParam());
    kernels::gate(gated, y.raw(), GetParam());
    const std::vector<float> values = y.to_floats();
    for (Index i = 0; i < kRows * kColumns; ++i) {
      const Index place = i / kColumns * 2 * kColumns + i % kColumns;
      const double truth = activation_truth(at[place], activation) * at[place + kColumns];
      ASSERT_TRUE(std::abs(values[i] - truth) <=
                  tolerance(truth) + 3e-6 * std::abs(at[place + kColumns]))
          << static_cast<int>(activation) << " of " << at[place] << " and " << at[place + kColumns]
          << " is " << values[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Elementwise, testing::Values(DType::f32, DType::bf16),
                         [](const auto& info) {
                           return info.param == DType::f32 ? "fp32" : "bf16";
                         });

}  // namespace
}  // namespace longformer::elementwise_test
