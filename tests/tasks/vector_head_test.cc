// Losses of vectors of texts against their definitions in double, and gradients against central
// differences of these.
//
// Reruns: tsan
#include "tasks/embedding/vector_head.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/memory.h"
#include "core/random.h"
#include "error_testing.h"
#include "ops/gradients.h"

namespace longformer::tasks::vector_head_test {
namespace {

using Doubles = std::vector<double>;

constexpr Index kWidth = 6;

/// Vectors of a batch in double.
struct Truth {
  Doubles values;

  double dot(Index a, Index b) const {
    double sum = 0;
    for (Index c = 0; c < kWidth; ++c)
      sum += values[at(a * kWidth + c)] * values[at(b * kWidth + c)];
    return sum;
  }
  double cosine(Index a, Index b) const { return dot(a, b) / std::sqrt(dot(a, a) * dot(b, b)); }
  double distance(Index a, Index b) const {
    double square = 0;
    for (Index c = 0; c < kWidth; ++c) {
      const double difference = values[at(a * kWidth + c)] - values[at(b * kWidth + c)] + 1e-6;
      square += difference * difference;
    }
    return std::sqrt(square);
  }
  /// −log of the share of `right` among all.
  double chosen(Index asking, Index right, const std::set<Index>& among, double temperature) const {
    double sum = 0;
    for (const Index one : among) sum += std::exp(cosine(asking, one) / temperature);
    return std::log(sum) - cosine(asking, right) / temperature;
  }
};

/// Three examples: an anchor, its positive and a negative; two anchors of one positive (vectors 3,
/// 4 and 5, of which the row of the positive stands between); a pair whose positive is the text of
/// vector 1.
struct Batch {
  std::vector<DocumentTarget> rows;
  std::vector<Index> questions = {3, 3, 2};

  explicit Batch(EmbeddingLoss loss, const EmbeddingTrainingOptions& options = {}) {
    const auto add = [&](std::uint64_t text, std::int64_t answer) -> VectorTarget& {
      EmbeddingTarget target = {.loss = loss, .options = options};
      target.vectors = {{.begin = 0, .end = 1, .text = text, .answer = answer}};
      rows.emplace_back().embedding = std::move(target);
      return rows.back().embedding->vectors[0];
    };
    add(1, 1).score = 0.25f;
    add(2, -1);
    add(3, -1);
    add(4, 1).score = 0.75f;
    add(5, -1);
    add(6, 1);
    add(7, 1);
    add(2, -1);
  }
  Targets targets() const { return {.documents = rows, .questions = questions}; }
};

void expect_loss(const Batch& batch, const std::function<double(const Truth&)>& definition) {
  MemoryPool memory;
  Tape tape;
  const ops::Context context = {.memory = memory, .threads = 2, .tape = &tape};
  Tensor vectors = random_normal_tensor({8, kWidth}, 1, 17);
  Tape::track(vectors);
  const ops::LossSum loss = VectorHead().loss_of(context, vectors, batch.targets(), {.scale = 0.5});
  tape.backward();
  const std::vector<float> floats = vectors.to_floats();
  Truth truth = {{floats.begin(), floats.end()}};
  EXPECT_NEAR(loss.sum / loss.weight, definition(truth), 1e-5);
  const std::vector<float> gradient = vectors.gradient()->sum.to_floats();
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const double middle = truth.values[i];
    truth.values[i] = middle + 1e-5;
    const double above = definition(truth);
    truth.values[i] = middle - 1e-5;
    const double below = definition(truth);
    truth.values[i] = middle;
    EXPECT_NEAR(static_cast<double>(gradient[i]), 0.5 * (above - below) / 2e-5, 2e-5) << i;
  }
}

TEST(VectorHead, AnchorsChooseAmongAllThatIsNotAsRight) {
  constexpr double kTemperature = 0.5;
  expect_loss(Batch(EmbeddingLoss::contrastive, {.temperature = kTemperature}), [](const Truth& x) {
    // Vectors 1 and 7 are the same text: neither is the other's wrong answer.
    return (x.chosen(0, 1, {1, 2, 4}, kTemperature) + x.chosen(3, 4, {1, 2, 4, 7}, kTemperature) +
            x.chosen(5, 4, {1, 2, 4, 7}, kTemperature) + x.chosen(6, 7, {2, 4, 7}, kTemperature)) /
           4;
  });
}

TEST(VectorHead, SymmetricIsTheMeanOfBothDirections) {
  constexpr double kTemperature = 0.5;
  expect_loss(
      Batch(EmbeddingLoss::contrastive, {.temperature = kTemperature, .symmetric = true}),
      [](const Truth& x) {
        const double forward =
            x.chosen(0, 1, {1, 2, 4}, kTemperature) + x.chosen(3, 4, {1, 2, 4, 7}, kTemperature) +
            x.chosen(5, 4, {1, 2, 4, 7}, kTemperature) + x.chosen(6, 7, {2, 4, 7}, kTemperature);
        const double backward =
            x.chosen(1, 0, {0, 3, 5}, kTemperature) + x.chosen(4, 3, {0, 3, 6}, kTemperature) +
            x.chosen(4, 5, {0, 5, 6}, kTemperature) + x.chosen(7, 6, {3, 5, 6}, kTemperature);
        return (forward + backward) / 8;
      });
}

TEST(VectorHead, TripletsAreOfOneExample) {
  expect_loss(Batch(EmbeddingLoss::triplet, {.margin = 2}), [](const Truth& x) {
    return std::max(0.0, x.distance(0, 1) - x.distance(0, 2) + 2);
  });
}

TEST(VectorHead, CosinesFollowScoresWhereThereAreAny) {
  expect_loss(Batch(EmbeddingLoss::cosine), [](const Truth& x) {
    return (std::pow(x.cosine(0, 1) - 0.25, 2) + std::pow(x.cosine(3, 4) - 0.75, 2)) / 2;
  });
}

TEST(VectorHead, ATeacherIsAddedOrAlone) {
  const std::vector<float> teacher = {0.5f, -1, 2, 0, 0.25f, 1};
  const auto difference = [&](const Truth& x) {
    double sum = 0;
    for (const Index row : {2, 4}) {
      for (Index c = 0; c < kWidth; ++c) {
        sum += std::pow(x.values[at(row * kWidth + c)] - static_cast<double>(teacher[at(c)]), 2);
      }
    }
    return sum / (2 * kWidth);
  };
  Batch alone(EmbeddingLoss::distillation, {.distillation_weight = 3});
  Batch added(EmbeddingLoss::cosine, {.distillation_weight = 3});
  for (Batch* batch : {&alone, &added}) {
    for (const std::size_t row : {2, 4}) batch->rows[row].embedding->vectors[0].teacher = teacher;
  }
  expect_loss(alone, difference);
  expect_loss(added, [&](const Truth& x) {
    return (std::pow(x.cosine(0, 1) - 0.25, 2) + std::pow(x.cosine(3, 4) - 0.75, 2)) / 2 +
           3 * difference(x);
  });
}

TEST(VectorHead, RefusesTargetsThatDoNotFit) {
  MemoryPool memory;
  const ops::Context context = {.memory = memory};
  const Tensor vectors = random_normal_tensor({8, kWidth}, 1, 17);
  const auto said = [&](const Batch& batch) {
    return error_of([&] { VectorHead().loss_of(context, vectors, batch.targets(), {}); });
  };
  Batch far(EmbeddingLoss::contrastive);
  far.rows[6].embedding->vectors[0].answer = 2;
  expect_error(said(far), {"2 vectors", "found 2"});
  Batch missing(EmbeddingLoss::contrastive);
  missing.rows[3].embedding.reset();
  expect_error(said(missing), {"every row", "none"});
  Batch narrow(EmbeddingLoss::distillation);
  narrow.rows[0].embedding->vectors[0].teacher = {1, 2};
  expect_error(said(narrow), {"6 numbers", "found 2"});
}

}  // namespace
}  // namespace longformer::tasks::vector_head_test
