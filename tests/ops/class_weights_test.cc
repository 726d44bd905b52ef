// Losses with weights of classes and their gradients, against those of PyTorch in double
// (tests/fixtures/make_class_weights.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/memory.h"
#include "fixtures.h"
#include "ops/gradients.h"
#include "ops/loss.h"

namespace longformer::ops::class_weights_test {
namespace {

class ClassWeightsTest : public ::testing::Test {
 protected:
  template <typename Number>
  std::vector<Number> list(const char* key) const {
    return found_.at(key).get<std::vector<Number>>();
  }

  double value(const char* key) const { return found_.at(key).get<double>(); }

  /// The loss of `run` and its gradient for the logits of the fixture.
  template <typename Run>
  LossSum gradient_of(const Run& run, std::vector<float>& gradient) const {
    const auto shape = list<Index>("shape");
    const auto values = list<float>("logits");
    Tensor logits = Tensor::zeros({shape[0], shape[1]}, DType::f32);
    std::copy(values.begin(), values.end(), logits.data<float>());
    Tape::track(logits);
    Tape tape;
    MemoryPool memory;
    Context context{.memory = memory, .threads = 1};
    context.tape = &tape;
    const LossSum loss = run(context, logits);
    tape.backward();
    gradient = logits.gradient()->take().to_floats();
    return loss;
  }

  static void expect_near(const std::vector<float>& found, const std::vector<double>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(std::abs(static_cast<double>(found[i]) - expected[i]) <= 1e-7) << i;
    }
  }

 private:
  nlohmann::ordered_json found_ =
      nlohmann::ordered_json::parse(std::ifstream(fixtures_folder() / "class_weights.json"));
};

TEST_F(ClassWeightsTest, CrossEntropyIsThatOfPyTorch) {
  const auto weights = list<double>("weights");
  const auto labels = list<std::int32_t>("labels");
  double sum = 0;
  for (const std::int32_t label : labels) {
    if (label >= 0) sum += weights[static_cast<std::size_t>(label)];
  }
  std::vector<float> gradient;
  const LossSum loss = gradient_of(
      [&](const Context& context, const Tensor& logits) {
        return cross_entropy(context, logits, labels, {.scale = 1 / sum, .class_weights = weights});
      },
      gradient);
  EXPECT_TRUE(std::abs(loss.weight - sum) <= 1e-12);
  const double expected = value("loss");
  EXPECT_TRUE(std::abs(loss.sum / loss.weight - expected) <= 1e-12 * expected);
  expect_near(gradient, list<double>("gradient"));
}

TEST_F(ClassWeightsTest, BinaryCrossEntropyIsThatOfPyTorch) {
  const auto right = list<double>("right"), other = list<double>("other");
  const auto targets = list<float>("targets");
  std::vector<float> gradient;
  const LossSum loss = gradient_of(
      [&](const Context& context, const Tensor& logits) {
        return binary_cross_entropy(context, logits, targets,
                                    {.scale = 1 / static_cast<double>(targets.size()),
                                     .class_weights = right,
                                     .other_weights = other});
      },
      gradient);
  const double expected = value("binary_loss");
  EXPECT_TRUE(std::abs(loss.sum / loss.weight - expected) <= 1e-12 * expected);
  expect_near(gradient, list<double>("binary_gradient"));
}

}  // namespace
}  // namespace longformer::ops::class_weights_test
