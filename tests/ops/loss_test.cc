// Every loss has a row: its value against its definition in double, and its gradient against
// central differences of that.
//
// Reruns: tsan
#include "ops/loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "core/memory.h"
#include "core/random.h"
#include "doubles.h"
#include "kernels/cross_entropy.h"
#include "ops/gradients.h"
#include "ops/row_vectors.h"

namespace longformer::ops::loss_test {
namespace {

/// A loss over logits [rows, columns]: by the op, and in double.
struct LossRow {
  std::string name;
  Shape shape;
  std::function<LossSum(const Context&, const Tensor&, const LossOptions&)> run;
  std::function<double(const Doubles&)> truth;
  double weight;
};

double logsumexp(const Doubles& x) {
  double sum = 0;
  for (const double value : x) sum += std::exp(value);
  return std::log(sum);
}

LossRow class_row(double smoothing) {
  static const std::vector<std::int32_t> labels = {2, kIgnored, 0, 4};
  return {.name = smoothing > 0 ? "cross_entropy_smoothed" : "cross_entropy",
          .shape = {4, 5},
          .run =
              [smoothing](const Context& context, const Tensor& logits, LossOptions options) {
                options.label_smoothing = smoothing;
                return cross_entropy(context, logits, labels, options);
              },
          .truth =
              [smoothing](const Doubles& x) {
                double loss = 0;
                for (std::size_t row = 0; row < 4; ++row) {
                  if (labels[row] == kIgnored) continue;
                  const Doubles logits(x.begin() + static_cast<std::ptrdiff_t>(row * 5),
                                       x.begin() + static_cast<std::ptrdiff_t>(row * 5 + 5));
                  const double all = logsumexp(logits);
                  for (std::size_t c = 0; c < 5; ++c) {
                    const bool right = static_cast<std::size_t>(labels[row]) == c;
                    const double share = (right ? 1 - smoothing : 0) + smoothing / 5;
                    loss += share * (all - logits[c]);
                  }
                }
                return loss;
              },
          .weight = 3};
}

LossRow element_row(bool binary) {
  static const std::vector<float> targets = {1, 0, 0.5f, 1, 0, 2};
  return {.name = binary ? "binary_cross_entropy" : "squared_error",
          .shape = {2, 3},
          .run =
              [binary](const Context& context, const Tensor& logits, const LossOptions& options) {
                return binary ? binary_cross_entropy(context, logits, targets, options)
                              : squared_error(context, logits, targets, options);
              },
          .truth =
              [binary](const Doubles& x) {
                double loss = 0;
                for (std::size_t i = 0; i < x.size(); ++i) {
                  const auto y = static_cast<double>(targets[i]);
                  loss +=
                      binary ? std::log(1 + std::exp(x[i])) - x[i] * y : (x[i] - y) * (x[i] - y);
                }
                return loss;
              },
          .weight = 6};
}

LossRow choice_row(double smoothing) {
  static const std::vector<RowChoice> choices = {{.range = {0, 4}, .right = {2}},
                                                 {.range = {4, 6}, .right = {}},
                                                 {.range = {6, 9}, .right = {6, 8}}};
  return {.name = smoothing > 0 ? "row_cross_entropy_smoothed" : "row_cross_entropy",
          .shape = {9, 2},
          .run =
              [smoothing](const Context& context, const Tensor& logits, LossOptions options) {
                options.label_smoothing = smoothing;
                return row_cross_entropy(context, logits, 1, choices, options);
              },
          .truth =
              [smoothing](const Doubles& x) {
                double loss = 0;
                for (const RowChoice& choice : choices) {
                  if (choice.right.empty()) continue;
                  Doubles all, right;
                  for (Index row = choice.range.begin; row < choice.range.end; ++row) {
                    all.push_back(x[at(row * 2 + 1)]);
                  }
                  for (const Index row : choice.right) right.push_back(x[at(row * 2 + 1)]);
                  const double mean = std::accumulate(all.begin(), all.end(), 0.0) /
                                      static_cast<double>(all.size());
                  loss += (1 - smoothing) * (logsumexp(all) - logsumexp(right)) +
                          smoothing * (logsumexp(all) - mean);
                }
                return loss;
              },
          .weight = 2};
}

/// The second triplet is far enough apart to cost nothing.
LossRow triplet_row() {
  static const std::vector<Triplet> triplets = {{0, 1, 2}, {3, 3, 4}, {2, 0, 1}, {1, 4, 0}};
  constexpr double kMargin = 0.5;
  return {
      .name = "triplet_loss",
      .shape = {5, 7},
      .run = [](const Context& context, const Tensor& x, const LossOptions& options) -> LossSum {
        return triplet_loss(context, x, triplets, kMargin, options);
      },
      .truth =
          [](const Doubles& x) {
            const auto distance = [&](Index a, Index b) {
              double square = 0;
              for (Index c = 0; c < 7; ++c) {
                const double difference = x[at(a * 7 + c)] - x[at(b * 7 + c)] + 1e-6;
                square += difference * difference;
              }
              return std::sqrt(square);
            };
            double loss = 0;
            for (const auto& [anchor, positive, negative] : triplets) {
              loss +=
                  std::max(0.0, distance(anchor, positive) - distance(anchor, negative) + kMargin);
            }
            return loss;
          },
      .weight = 4};
}

/// −log of the share of each row's own column among all that are not excluded.
LossRow excluded_pair_row() {
  static const std::vector<ExcludedPair> excluded = {{0, 2}, {2, 1}};
  static const std::vector<std::int32_t> labels = {0, 1, 2};
  return {.name = "row_products with excluded pairs",
          .shape = {3, 4},
          .run =
              [](const Context& context, const Tensor& x, const LossOptions& options) {
                Tape tape;
                Context taped = context;
                taped.tape = &tape;
                const Tensor products = row_products(taped, x, x, 0.25f, excluded);
                const LossSum loss = cross_entropy(taped, products, labels, options);
                tape.backward();
                return loss;
              },
          .truth =
              [](const Doubles& x) {
                double loss = 0;
                for (Index i = 0; i < 3; ++i) {
                  Doubles logits;
                  double own = 0;
                  for (Index j = 0; j < 3; ++j) {
                    double product = 0;
                    for (Index c = 0; c < 4; ++c)
                      product += 0.25 * x[at(i * 4 + c)] * x[at(j * 4 + c)];
                    if (i == j) own = product;
                    const bool counts = std::find(excluded.begin(), excluded.end(),
                                                  ExcludedPair{i, j}) == excluded.end();
                    if (counts) logits.push_back(product);
                  }
                  loss += logsumexp(logits) - own;
                }
                return loss;
              },
          .weight = 3};
}

TEST(Losses, EqualTheirDefinitionAndCentralDifferences) {
  for (const LossRow& row : {class_row(0), class_row(0.1), element_row(true), element_row(false),
                             choice_row(0), choice_row(0.3), triplet_row(), excluded_pair_row()}) {
    MemoryPool memory;
    const Context context = {.memory = memory, .threads = 2};
    Tensor logits = random_normal_tensor(row.shape, 1.5f, 7);
    Tape::track(logits);
    const LossSum loss = row.run(context, logits, {.scale = 0.25});
    Doubles x = doubles(logits);
    EXPECT_NEAR(loss.sum, row.truth(x), 1e-5) << row.name;
    EXPECT_EQ(loss.weight, row.weight) << row.name;
    const Doubles gradient = doubles(logits.gradient()->sum);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double middle = x[i];
      x[i] = middle + 1e-5;
      const double above = row.truth(x);
      x[i] = middle - 1e-5;
      const double below = row.truth(x);
      x[i] = middle;
      EXPECT_NEAR(gradient[i], 0.25 * (above - below) / 2e-5, 1e-6) << row.name << " " << i;
    }
  }
}

TEST(Losses, OfADecoderEqualTheSameInTwoSteps) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    // More rows than one block has.
    const Index n = 300, width = 12, classes = 37;
    std::vector<std::int32_t> labels;
    for (Index i = 0; i < n; ++i)
      labels.push_back(i % 7 == 0 ? kIgnored : static_cast<std::int32_t>(i % classes));
    std::vector<Tensor> gradients[2];
    double sums[2];
    for (const bool fused : {false, true}) {
      MemoryPool memory;
      Tape tape;
      const Context context = {.memory = memory, .dtype = dtype, .threads = 2, .tape = &tape};
      Tensor x = random_normal_tensor({n, width}, 1, 1).to(dtype);
      Tensor weight = random_normal_tensor({classes, width}, 0.5f, 2);
      Tensor bias = random_normal_tensor({classes}, 0.5f, 3);
      for (Tensor* tensor : {&x, &weight, &bias}) Tape::track(*tensor);
      const Linear decoder(std::vector{weight}, std::vector{bias},
                           {.dtype = dtype, .trainable = true});
      const LossOptions options = {.scale = 0.01, .label_smoothing = 0.1};
      if (fused) {
        sums[1] = linear_cross_entropy(context, x, decoder, labels, options).sum;
      } else {
        const Tensor logits = linear(context, x, decoder, DType::f32);
        sums[0] = cross_entropy(context, logits, labels, options).sum;
      }
      tape.backward();
      for (const Tensor& tensor : {x, weight, bias})
        gradients[fused ? 1 : 0].push_back(tensor.gradient()->sum);
    }
    EXPECT_NEAR(sums[0], sums[1], 1e-4 * sums[0]);
    for (std::size_t i = 0; i < 3; ++i) {
      const Doubles a = doubles(gradients[0][i]), b = doubles(gradients[1][i]);
      for (std::size_t j = 0; j < a.size(); ++j) {
        ASSERT_TRUE(std::abs(a[j] - b[j]) <= (dtype == DType::f32 ? 1e-5 : 2e-3)) << i << " " << j;
      }
    }
  }
}

TEST(RowCrossEntropy, ALogitOfMinusInfinityHasNoPart) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const Tensor logits = Tensor::from(std::vector<float>{kNever, 1, 2}, {3, 1});
  Tensor gradient = Tensor::zeros({3, 1}, DType::f32);
  const std::vector<RowChoice> choices = {{.range = {0, 3}, .right = {2}}};
  const LossSum loss = kernels::row_cross_entropy(logits, 0, choices, {}, gradient);
  EXPECT_TRUE(std::abs(loss.sum - std::log(1 + std::exp(-1.0))) <= 1e-7) << loss.sum;
  EXPECT_EQ(gradient.to_floats()[0], 0.0f);
}

TEST(LogSoftmax, IsThatOfTheDefinition) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (const Index count : {1, 3, 8, 17, 64, 1023, 1025, 50265}) {
    std::vector<float> logits = random_normal_tensor({count}, 8, 5).to_floats();
    for (Index i = 2; i < count; i += 7) logits[static_cast<std::size_t>(i)] = kNever;
    long double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
    std::vector<float> found = logits;
    kernels::log_softmax(found.data(), count);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] == kNever) {
        ASSERT_EQ(found[i], kNever) << count << " " << i;
      } else {
        ASSERT_TRUE(std::abs(found[i] - (logits[i] - std::log(sum))) <= 4e-6) << count << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace longformer::ops::loss_test
