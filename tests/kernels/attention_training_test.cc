// Attention in training: dropout, relative positions, and the gradients. The double-precision
// reference is held against central differences, the fast kernels against the reference.
//
// Reruns: tsan isa
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "attention_training_testing.h"

namespace longformer::kernels::attention_training_test {
namespace {

struct Case {
  std::string name;
  AttentionSpec spec;
};

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
      {"masked keys beside as many queries",
       masked(with_documents(window(0, symmetric(2)), {{0, 5, 0, 5, 0}}), {1, 4})},
      {"no queries", with_documents(window(0, symmetric(2)), {{0, 0, 0, 5, 0}})},
      {"no keys", with_documents(window(0, symmetric(2)), {{0, 5, 0, 0, 0}})},
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

void expect_central_differences(const std::string& name, const AttentionSpec& spec, unsigned seed) {
  const Inputs in = random_inputs(spec, seed);
  Tensor q = doubles(in.query), k = doubles(in.key), v = doubles(in.value);
  const Positions positions = random_positions(spec, seed + 3);
  Tensor u = doubles(positions.content_bias), p = doubles(positions.position_bias);
  Tensor r = doubles(positions.keys);
  const RelativePositions given = {u, p, r};
  const RelativePositions* relative = spec.relative_positions ? &given : nullptr;
  const auto heads = static_cast<Index>(spec.heads.size());
  const Tensor g = random_tensor({spec.rows->query_count(), heads * spec.head_size}, seed + 6);
  const auto out = [&] {
    return reference_attention<double>(spec, q, k, v, {.relative = relative}).out;
  };
  const auto found = reference_attention_backward<double>(spec, q, k, v, g, {.relative = relative});
  const std::vector<float> weights = g.to_floats();
  const auto expect_slopes = [&](const char* what, Tensor& x, const std::vector<double>& slopes) {
    const double difference = max_difference(slopes, central_differences(x, weights, out));
    EXPECT_TRUE(difference <= 1e-8) << name << ", " << what << " off by " << difference;
  };
  expect_slopes("query", q, found.query);
  expect_slopes("key", k, found.key);
  expect_slopes("value", v, found.value);
  if (relative == nullptr) return;
  expect_slopes("content bias", u, found.content_bias);
  expect_slopes("position bias", p, found.position_bias);
  expect_slopes("relative keys", r, found.relative_keys);
}

TEST(ReferenceBackward, EqualsCentralDifferences) {
  unsigned seed = 1000;
  for (const auto& [name, spec] : small_cases()) {
    expect_central_differences(name, spec, seed += 10);
  }
}

// ---- the fast kernels against the reference ----

/// Forward in training: dropout, which only the fused backend runs, and relative positions, which
/// OpenCL runs too.
void expect_forward_exact(const std::string& what, const AttentionSpec& spec, unsigned seed,
                          DType dtype = DType::f32) {
  const TrainingInputs x(spec, seed, dtype);
  // In bf16 q + u and q + v are rounded once more: with a head size of 1 that moves a score by
  // 0.03.
  const bool fp32 = dtype == DType::f32;
  for (const int threads : {1, 2}) {
    const FusedResult found(spec, x, threads);
    const double difference = max_difference(found.out.to_floats(), x.truth.out);
    EXPECT_TRUE(difference <= (fp32 ? 5e-6 : 5e-2)) << what << ", out off by " << difference;
    const double sums = max_difference(found.logsumexp.to_floats(), x.truth.logsumexp);
    EXPECT_TRUE(sums <= (fp32 ? 5e-6 : 5e-2)) << what << ", logsumexp off by " << sums;
  }
  if (!has_opencl() || why_not(AttentionBackend::opencl, spec)) return;
  const FusedResult found(spec, x, 1, AttentionBackend::opencl);
  const double difference = max_difference(found.out.to_floats(), x.truth.out);
  EXPECT_TRUE(difference <= (fp32 ? 5e-6 : 5e-2)) << what << ", opencl: out off by " << difference;
  const double sums = max_difference(found.logsumexp.to_floats(), x.truth.logsumexp);
  EXPECT_TRUE(sums <= (fp32 ? 5e-6 : 5e-2)) << what << ", opencl: logsumexp off by " << sums;
}

double largest(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

/// Differences relative to the largest gradient of the tensor: fp32 rounding of scores and sums
/// moves all of them alike.
void expect_backward_exact(const std::string& what, const AttentionSpec& spec, unsigned seed,
                           DType dtype = DType::f32) {
  const TrainingInputs x(spec, seed, dtype);
  const RelativePositions relative = x.relative();
  const auto truth = reference_attention_backward<double>(
      spec, x.in.query, x.in.key, x.in.value, x.out_gradient,
      {.relative = spec.relative_positions ? &relative : nullptr});
  // Largest seen: fp32 5e-6 (of a gradient that is a sum of rounding errors, as all of them
  // cancel), bf16 1.1e-2.
  const double tolerance = dtype == DType::f32 ? 1e-5 : 2e-2;
  struct Run {
    AttentionBackend backend;
    int threads;
  };
  std::vector<Run> runs = {{AttentionBackend::fused, 1}, {AttentionBackend::fused, 2}};
  if (has_opencl() && !why_not_backward(AttentionBackend::opencl, spec)) {
    runs.push_back({AttentionBackend::opencl, 1});
  }
  for (const Run& run : runs) {
    const Gradients found = run_backward(spec, x, run.threads, {.backend = run.backend});
    const auto expect_close = [&](const char* name, const std::vector<float>& got,
                                  const std::vector<double>& expected) {
      const double difference = max_difference(got, expected) / std::max(1.0, largest(expected));
      EXPECT_TRUE(difference <= tolerance)
          << what << ", " << name_of(run.backend) << ", " << name << ", " << run.threads
          << " threads: off by " << difference;
    };
    expect_close("query", found.query, truth.query);
    expect_close("key", found.key, truth.key);
    expect_close("value", found.value, truth.value);
    expect_close("content bias", found.content_bias, truth.content_bias);
    expect_close("position bias", found.position_bias, truth.position_bias);
    expect_close("relative keys", found.relative_keys, truth.relative_keys);
  }
}

TEST(Forward, EveryPattern) {
  unsigned seed = 2000;
  for (const auto& [name, spec] : small_cases()) {
    expect_forward_exact(name, spec, seed += 10);
    expect_forward_exact(name + ", bf16", spec, seed, DType::bf16);
    expect_forward_exact(name + ", dropout", with_dropout(spec, 0.5f), seed);
  }
}

TEST(Forward, HeadSizesLengthsAndReaches) {
  unsigned seed = 2500;
  for (const Index head_size : {1, 20, 64, 80}) {
    for (const Index n : {1, 32, 77, 200}) {
      for (const Index reach : {Index{0}, Index{7}, Index{64}, kUnlimitedReach}) {
        for (const DType dtype : {DType::f32, DType::bf16}) {
          AttentionSpec spec = with_dropout(self_attention(n, 2, head_size, symmetric(reach)));
          const std::string what =
              fmt::format("d {}, n {}, reach {} {}", head_size, n, reach, name_of(dtype));
          expect_forward_exact(what, spec, ++seed, dtype);
          spec = with_positions(with_heads(spec, {previous(reach), previous(reach, 3)}));
          expect_forward_exact(what + ", positions and dropout", spec, ++seed, dtype);
          spec.dropout = {};
          expect_forward_exact(what + ", positions", spec, ++seed, dtype);
        }
        if (HasFailure()) return;
      }
    }
  }
}

TEST(Forward, RandomSpecsWithDropout) {
  std::mt19937 generator(1904);
  for (unsigned trial = 0; trial < 50; ++trial) {
    const AttentionSpec spec = with_dropout(random_spec(generator), 0.1f);
    expect_forward_exact(fmt::format("random spec {}", trial), spec, trial,
                         trial % 4 == 3 ? DType::bf16 : DType::f32);
    if (HasFailure()) return;
  }
}

/// Several tasks and chunks of keys.
TEST(Forward, LongDocuments) {
  unsigned seed = 2700;
  for (const HeadPattern pattern : {previous(kUnlimitedReach), previous(900), previous(500, 2)}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      AttentionSpec spec = with_positions(self_attention(1500, 1, 128, pattern));
      mask(spec, {0, 1, 2, 640, 641, 642, 643, 1498});
      const std::string what = fmt::format("long, reach {} {}", pattern.reach_left, name_of(dtype));
      expect_forward_exact(what, spec, ++seed, dtype);
      expect_forward_exact(what + ", dropout", with_dropout(spec), ++seed, dtype);
    }
  }
}

/// Those that compute gradients on this machine.
std::vector<AttentionBackend> backward_backends() {
  std::vector<AttentionBackend> backends = {AttentionBackend::fused};
  if (has_opencl()) backends.push_back(AttentionBackend::opencl);
  return backends;
}

TEST(Backward, EveryPattern) {
  unsigned seed = 3000;
  for (const auto& [name, spec] : small_cases()) {
    expect_backward_exact(name, spec, seed += 10);
    expect_backward_exact(name + ", bf16", spec, seed, DType::bf16);
    if (HasFailure()) return;
  }
}

TEST(Backward, HeadSizes) {
  for (const Index head_size : {1, 3, 8, 16, 17, 20, 32, 48, 64, 80}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      AttentionSpec spec = with_globals(self_attention(77, 3, head_size, symmetric(9)), {0, 38},
                                        GlobalQueries::see_everything);
      const std::string what = fmt::format("head size {} {}", head_size, name_of(dtype));
      expect_backward_exact(what, spec, static_cast<unsigned>(head_size), dtype);
      spec = with_dropout(with_positions(self_attention(77, 2, head_size, previous(9, 2))));
      expect_backward_exact(what + ", positions", spec, static_cast<unsigned>(head_size), dtype);
    }
  }
}

TEST(Backward, LengthsAndReaches) {
  unsigned seed = 1;
  for (const Index n : {1, 2, 15, 31, 32, 33, 63, 65, 129, 300}) {
    for (const Index reach : {Index{0}, Index{1}, Index{7}, Index{64}, kUnlimitedReach}) {
      AttentionSpec spec = self_attention(n, 2, 16, symmetric(reach));
      const std::string what = fmt::format("n {}, reach {}", n, reach);
      expect_backward_exact(what, spec, ++seed);
      expect_backward_exact(what + ", causal", with_dropout(causal(spec)), ++seed);
      spec = with_positions(with_heads(spec, {previous(reach), previous(reach, 3)}));
      expect_backward_exact(what + ", positions", spec, ++seed);
    }
  }
}

TEST(Backward, RandomSpecs) {
  std::mt19937 generator(1909);
  for (unsigned trial = 0; trial < 50; ++trial) {
    AttentionSpec spec = random_spec(generator);
    if (trial % 2 == 1) spec = with_dropout(spec, 0.1f);
    expect_backward_exact(fmt::format("random spec {}", trial), spec, trial,
                          trial % 4 == 3 ? DType::bf16 : DType::f32);
    if (HasFailure()) return;
  }
}

/// Several tasks and chunks of keys, and heads that are split among threads.
TEST(Backward, LongDocuments) {
  unsigned seed = 200;
  for (const HeadPattern pattern :
       {symmetric(kUnlimitedReach), symmetric(61), previous(900), previous(500, 2)}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      AttentionSpec spec = self_attention(1500, 1, 16, pattern);
      const std::string what = fmt::format("long, reach {} {}", pattern.reach_left, name_of(dtype));
      expect_backward_exact(what, spec, ++seed, dtype);
      if (pattern.reach_right == 0) {
        expect_backward_exact(what + ", positions", with_dropout(with_positions(spec), 0.2f),
                              ++seed, dtype);
      }
      for (Index j = 0; j < 1500; j += 7) edit(spec).global_keys.push_back(j);
      mask(spec, {0, 1, 2, 640, 641, 642, 643, 1498});
      expect_backward_exact(what + ", many globals", spec, ++seed, dtype);
      spec.global_queries = GlobalQueries::see_everything;
      expect_backward_exact(what + ", many globals see everything", spec, ++seed, dtype);
    }
  }
  expect_backward_exact("long ragged", ragged({700, 3, 0, 1, 900, 511, 513}, 1, 16, symmetric(90)),
                        ++seed);
}

/// Rows whose output the layer has overwritten: no gradient, and anything in `out`.
TEST(Backward, RowsWithoutGradientDoNotCount) {
  const AttentionSpec spec = with_globals(self_attention(90, 2, 16, symmetric(8)), {0, 40, 41});
  TrainingInputs x(spec, 5, DType::f32);
  for (const Index row : spec.rows->global_keys) {
    std::fill_n(x.out_gradient.data<float>() + row * 32, 32, 0.0f);
  }
  TrainingInputs clean(spec, 5, DType::f32);
  clean.out_gradient = x.out_gradient;
  for (const Index row : spec.rows->global_keys) {
    std::fill_n(x.out.data<float>() + row * 32, 32, std::nanf(""));
  }
  const auto truth =
      reference_attention_backward<double>(spec, x.in.query, x.in.key, x.in.value, x.out_gradient);
  for (const AttentionBackend backend : backward_backends()) {
    const Gradients expected = run_backward(spec, clean, 1, {.backend = backend});
    const Gradients found = run_backward(spec, x, 1, {.backend = backend});
    EXPECT_EQ(found.query, expected.query) << name_of(backend);
    EXPECT_EQ(found.key, expected.key) << name_of(backend);
    EXPECT_EQ(found.value, expected.value) << name_of(backend);
    EXPECT_TRUE(max_difference(found.key, truth.key) <= 1e-5) << name_of(backend);
  }
}

/// Contents of masked rows are undefined and must not be touched.
TEST(Backward, MaskedRowsMayHoldNan) {
  const AttentionSpec spec =
      masked(with_globals(self_attention(150, 2, 16, symmetric(12)), {0, 60}), {5, 70, 71, 149});
  TrainingInputs x(spec, 21, DType::f32);
  const TrainingInputs clean(spec, 21, DType::f32);
  for (Index head = 0; head < 2; ++head) {
    for (const Index row : {5, 70, 71, 149}) {
      for (Tensor* tensor : {&x.in.query, &x.in.key, &x.in.value}) {
        std::fill_n(tensor->data<float>() + (head * 150 + row) * 16, 16, std::nanf(""));
      }
    }
  }
  for (const AttentionBackend backend : backward_backends()) {
    const Gradients expected = run_backward(spec, clean, 2, {.backend = backend});
    const Gradients found = run_backward(spec, x, 2, {.backend = backend});
    EXPECT_EQ(found.query, expected.query) << name_of(backend);
    EXPECT_EQ(found.key, expected.key) << name_of(backend);
    EXPECT_EQ(found.value, expected.value) << name_of(backend);
  }
}

TEST(Backward, SameBitsEveryTime) {
  const AttentionSpec spec =
      with_dropout(with_positions(self_attention(1300, 3, 32, previous(70))));
  const TrainingInputs x(spec, 8, DType::f32);
  for (const int threads : {1, 2, 5}) {
    const Gradients first = run_backward(spec, x, threads);
    const Gradients second = run_backward(spec, x, threads);
    EXPECT_EQ(first.query, second.query) << threads << " threads";
    EXPECT_EQ(first.key, second.key) << threads << " threads";
    EXPECT_EQ(first.value, second.value) << threads << " threads";
    EXPECT_EQ(first.relative_keys, second.relative_keys) << threads << " threads";
    EXPECT_EQ(first.content_bias, second.content_bias) << threads << " threads";
  }
}

TEST(Backward, SameBitsEveryTimeByOpenCl) {
  if (!has_opencl()) GTEST_SKIP() << "no device of OpenCL (tools/packages.sh opencl)";
  const BackwardWay way = {.backend = AttentionBackend::opencl};
  const AttentionSpec spec = with_positions(self_attention(700, 3, 32, previous(70)));
  const TrainingInputs x(spec, 8, DType::f32);
  const Gradients first = run_backward(spec, x, 1, way);
  const Gradients second = run_backward(spec, x, 1, way);
  EXPECT_EQ(first.query, second.query);
  EXPECT_EQ(first.key, second.key);
  EXPECT_EQ(first.value, second.value);
  EXPECT_EQ(first.relative_keys, second.relative_keys);
  EXPECT_EQ(first.content_bias, second.content_bias);
}

/// docs/spec/golden.md#m4.
TEST(Reference, DilatedCausalKeys) {
  const auto keys_of = [](HeadPattern pattern, Index query) {
    AttentionSpec spec = causal(self_attention(10, 1, 1, pattern));
    std::vector<Index> keys;
    for (Index key = 0; key < 10; ++key) {
      if (sees(spec, spec.rows->documents[0], 0, query, key)) keys.push_back(key);
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
}  // namespace longformer::kernels::attention_training_test
