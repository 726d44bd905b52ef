// Attention in training: dropout, relative positions, and the gradients. The double-precision
// reference is held against central differences, the fast kernels against the reference.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "attention_testing.h"
#include "core/error.h"
#include "kernels/reference.h"

namespace longformer::kernels {
namespace {

/// What a case of relative positions adds to the inputs.
struct Positions {
  Tensor content_bias, position_bias, keys;
};

Positions random_positions(const AttentionSpec& spec, unsigned seed, DType dtype = DType::f32) {
  Index steps = 1;
  for (std::size_t head = 0; head < spec.heads.size(); ++head) {
    for (const AttentionDocument& document : spec.documents) {
      const Index last = document.query_offset + document.query_count - 1;
      steps = std::max(steps,
                       1 + std::min(spec.heads[head].reach_left, last / spec.heads[head].dilation));
    }
  }
  const auto heads = static_cast<Index>(spec.heads.size());
  return {random_tensor({heads, spec.head_size}, seed),
          random_tensor({heads, spec.head_size}, seed + 1),
          random_tensor({heads, steps, spec.head_size}, seed + 2, dtype)};
}

struct Case {
  std::string name;
  AttentionSpec spec;
};

AttentionSpec with_dropout(AttentionSpec spec, float rate = 0.3f) {
  spec.dropout = {.rate = rate, .seed = 11};
  return spec;
}

AttentionSpec with_positions(AttentionSpec spec) {
  spec.relative_positions = true;
  return spec;
}

AttentionSpec causal(AttentionSpec spec) {
  spec.causal = true;
  return spec;
}

AttentionSpec with_globals(AttentionSpec spec, std::vector<Index> globals,
                           GlobalQueries queries = GlobalQueries::windowed) {
  spec.global_keys = std::move(globals);
  spec.global_queries = queries;
  return spec;
}

AttentionSpec masked(AttentionSpec spec, const std::vector<Index>& rows) {
  mask(spec, rows);
  return spec;
}

AttentionSpec with_heads(AttentionSpec spec, std::vector<HeadPattern> heads) {
  spec.heads = std::move(heads);
  return spec;
}

AttentionSpec with_documents(AttentionSpec spec, std::vector<AttentionDocument> documents) {
  spec.documents = std::move(documents);
  return spec;
}

/// One row for each pattern that a layer can ask for.
std::vector<Case> small_cases() {
  const auto window = [](Index n, HeadPattern pattern) { return self_attention(n, 2, 3, pattern); };
  const auto everything = GlobalQueries::see_everything;
  return {
      {"window", window(9, symmetric(2))},
      {"lopsided", window(9, {3, 1, 1})},
      {"causal", causal(window(9, symmetric(2)))},
      {"dense", window(7, symmetric(kUnlimitedReach))},
      {"dilated", with_heads(window(11, symmetric(2)), {symmetric(2, 3), previous(3, 2)})},
      {"globals", with_globals(window(9, symmetric(1)), {0, 5})},
      {"globals, causal", causal(with_globals(window(9, symmetric(1)), {0, 5}))},
      {"globals see everything", with_globals(window(9, symmetric(1)), {0, 5}, everything)},
      {"holes", masked(with_globals(window(9, symmetric(2)), {0, 5}), {1, 3, 8})},
      {"all masked", masked(window(4, symmetric(2)), {0, 1, 2, 3})},
      {"ragged", ragged({3, 0, 5, 1}, 2, 3, symmetric(2))},
      {"ragged, globals", with_globals(ragged({3, 0, 5, 1}, 2, 3, symmetric(1)), {0, 3, 7})},
      {"keys from a ring", with_documents(window(0, previous(4)), {{0, 4, 0, 9, 5}})},
      {"queries beyond the keys", with_documents(window(0, symmetric(3)), {{0, 6, 0, 4, 2}})},
      {"shared keys", with_documents(window(0, symmetric(2)), {{0, 3, 0, 6, 0}, {3, 3, 2, 6, 1}})},
      {"dropout", with_dropout(window(9, symmetric(3)))},
      {"dropout, all",
       with_dropout(masked(with_globals(window(11, {2, 3, 2}), {2, 6}), {4}), 0.5f)},
      {"positions", with_positions(causal(window(8, previous(3))))},
      {"positions, dilated",
       with_positions(with_heads(window(11, previous(2)), {previous(2, 3), previous(3, 2)}))},
      {"positions, memory, dropout",
       with_dropout(with_positions(with_documents(window(0, previous(5)), {{0, 4, 0, 7, 3}})))},
      {"positions, ragged, holes",
       masked(with_positions(ragged({4, 5}, 2, 3, previous(kUnlimitedReach))), {2, 5})},
  };
}

Tensor doubles(const Tensor& tensor) {
  Tensor wide(tensor.shape(), DType::f64);
  const std::vector<float> values = tensor.to_floats();
  std::copy(values.begin(), values.end(), wide.data<double>());
  return wide;
}

/// Central differences of Σ g·out with respect to each element of `x`, one of the inputs of `out`.
std::vector<double> central_differences(Tensor& x, const std::vector<float>& g,
                                        const std::function<std::vector<double>()>& out) {
  constexpr double kStep = 1e-5;
  std::vector<double> slopes(static_cast<std::size_t>(x.size()));
  for (Index i = 0; i < x.size(); ++i) {
    const double before = x.data<double>()[i];
    const auto sum_at = [&](double value) {
      x.data<double>()[i] = value;
      const std::vector<double> values = out();
      double sum = 0;
      for (std::size_t j = 0; j < values.size(); ++j) sum += g[j] * values[j];
      return sum;
    };
    const double above = sum_at(before + kStep);
    const double below = sum_at(before - kStep);
    slopes[static_cast<std::size_t>(i)] = (above - below) / (2 * kStep);
    x.data<double>()[i] = before;
  }
  return slopes;
}

TEST(ReferenceBackward, EqualsCentralDifferences) {
  unsigned seed = 1000;
  for (const auto& [name, spec] : small_cases()) {
    seed += 10;
    const Inputs in = random_inputs(spec, seed);
    Tensor q = doubles(in.query), k = doubles(in.key), v = doubles(in.value);
    const Positions positions = random_positions(spec, seed + 3);
    Tensor u = doubles(positions.content_bias), p = doubles(positions.position_bias);
    Tensor r = doubles(positions.keys);
    const RelativePositions given = {u, p, r};
    const RelativePositions* relative = spec.relative_positions ? &given : nullptr;
    const auto heads = static_cast<Index>(spec.heads.size());
    const Tensor g = random_tensor({spec.query_count(), heads * spec.head_size}, seed + 6);
    const auto out = [&] { return reference_attention<double>(spec, q, k, v, relative).out; };
    const auto found = reference_attention_backward<double>(spec, q, k, v, g, relative);
    const std::vector<float> weights = g.to_floats();
    const auto expect_slopes = [&](const char* what, Tensor& x, const std::vector<double>& slopes) {
      const double difference = max_difference(slopes, central_differences(x, weights, out));
      EXPECT_TRUE(difference <= 1e-8) << name << ", " << what << " off by " << difference;
    };
    expect_slopes("query", q, found.query);
    expect_slopes("key", k, found.key);
    expect_slopes("value", v, found.value);
    if (relative == nullptr) continue;
    expect_slopes("content bias", u, found.content_bias);
    expect_slopes("position bias", p, found.position_bias);
    expect_slopes("relative keys", r, found.relative_keys);
  }
}

/// spec.md M.4.
TEST(Reference, DilatedCausalKeys) {
  const auto keys_of = [](HeadPattern pattern, Index query) {
    AttentionSpec spec = causal(self_attention(10, 1, 1, pattern));
    std::vector<Index> keys;
    for (Index key = 0; key < 10; ++key) {
      if (sees(spec, spec.documents[0], 0, query, key)) keys.push_back(key);
    }
    return keys;
  };
  EXPECT_EQ(keys_of(previous(3, 2), 7), (std::vector<Index>{1, 3, 5, 7}));
  EXPECT_EQ(keys_of(previous(3, 2), 2), (std::vector<Index>{0, 2}));
  EXPECT_EQ(keys_of(previous(3), 5), (std::vector<Index>{2, 3, 4, 5}));
}

/// Dropout drops the share that it says, and keeps the mean.
TEST(Reference, DropoutIsInvertedAndOfItsRate) {
  AttentionSpec spec = with_dropout(self_attention(400, 2, 1, symmetric(kUnlimitedReach)), 0.25f);
  const Inputs in = random_inputs(spec, 4);
  Tensor ones = Tensor::from(std::vector<float>(800, 1.0f), {2, 400, 1});
  const auto sums = reference_attention<double>(spec, in.query, in.key, ones).out;
  double mean = 0;
  for (const double sum : sums) mean += sum / static_cast<double>(sums.size());
  EXPECT_NEAR(mean, 1.0, 0.01);
}

}  // namespace
}  // namespace longformer::kernels
