// Biases by distance in attention: forward, backward and probabilities against the scalar
// reference, over odd sizes.
//
// Reruns: tsan isa
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "attention_training_testing.h"
#include "kernels/attention/probabilities.h"

namespace longformer::kernels::distance_bias_test {
namespace {

AttentionSpec with_biases(AttentionSpec spec) {
  spec.distance_bias = true;
  return spec;
}

/// Inputs with biases of so many distances to either side, and what the reference makes of them.
struct Biased {
  AttentionSpec spec;
  Inputs in;
  Tensor biases, out_gradient;
  ReferenceAttention<double> truth;

  Biased(const AttentionSpec& given, Index reach, unsigned seed, DType dtype = DType::f32)
      : spec(with_biases(given)), in(random_inputs(given, seed, dtype)) {
    const auto heads = static_cast<Index>(spec.heads.size());
    biases = random_tensor({heads, 2 * reach + 1}, seed + 3);
    out_gradient =
        random_tensor({spec.rows->query_count(), heads * spec.head_size}, seed + 4, dtype);
    truth =
        reference_attention<double>(spec, in.query, in.key, in.value, {.distance_bias = &biases});
  }
};

struct Attended {
  Tensor out, logsumexp;
};

Attended run(AttentionBackend backend, const Biased& x, int threads) {
  const auto heads = static_cast<Index>(x.spec.heads.size());
  Attended found = {unwritten(x.out_gradient),
                    unwritten(Tensor({heads, x.spec.rows->query_count()}, DType::f32))};
  attention(backend, x.spec,
            {.query = x.in.query,
             .key = x.in.key,
             .value = x.in.value,
             .out = found.out,
             .logsumexp = &found.logsumexp,
             .threads = threads,
             .distance_bias = &x.biases});
  return found;
}

double largest(const std::vector<double>& values) {
  double largest = 1;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

void expect_forward(const std::string& what, const Biased& x) {
  const bool fp32 = x.in.query.dtype() == DType::f32;
  std::vector<AttentionBackend> backends = {AttentionBackend::fused};
  if (!x.spec.dropout.active()) {
    backends.push_back(AttentionBackend::loop);
    if (has_opencl()) backends.push_back(AttentionBackend::opencl);
  }
  for (const AttentionBackend backend : backends) {
    for (const int threads : {1, 2}) {
      const Attended found = run(backend, x, threads);
      const double out = max_difference(found.out.to_floats(), x.truth.out);
      EXPECT_TRUE(out <= (fp32 ? 5e-6 : 3e-2))
          << what << ", " << name_of(backend) << ": out off by " << out;
      const double sums = max_difference(found.logsumexp.to_floats(), x.truth.logsumexp);
      EXPECT_TRUE(sums <= (fp32 ? 5e-6 : 2e-2))
          << what << ", " << name_of(backend) << ": logsumexp off by " << sums;
    }
  }
}

void expect_backward(const std::string& what, const Biased& x) {
  const bool fp32 = x.in.query.dtype() == DType::f32;
  const auto truth = reference_attention_backward<double>(
      x.spec, x.in.query, x.in.key, x.in.value, x.out_gradient, {.distance_bias = &x.biases});
  const Tensor out = Tensor::from(std::vector<float>(x.truth.out.begin(), x.truth.out.end()),
                                  x.out_gradient.shape())
                         .to(x.in.query.dtype());
  const Tensor logsumexp =
      Tensor::from(std::vector<float>(x.truth.logsumexp.begin(), x.truth.logsumexp.end()),
                   {static_cast<Index>(x.spec.heads.size()), x.spec.rows->query_count()});
  struct Run {
    AttentionBackend backend;
    int threads;
  };
  std::vector<Run> runs = {{AttentionBackend::fused, 1}, {AttentionBackend::fused, 2}};
  if (has_opencl() && !why_not_backward(AttentionBackend::opencl, x.spec)) {
    runs.push_back({AttentionBackend::opencl, 1});
  }
  for (const Run& run : runs) {
    Tensor query = unwritten(x.in.query), key = unwritten(x.in.key), value = unwritten(x.in.value);
    Tensor biases = unwritten(x.biases);
    attention_backward(run.backend, x.spec,
                       {.query = x.in.query,
                        .key = x.in.key,
                        .value = x.in.value,
                        .out = out,
                        .logsumexp = logsumexp,
                        .out_gradient = x.out_gradient,
                        .query_gradient = query,
                        .key_gradient = key,
                        .value_gradient = value,
                        .distance_bias = &x.biases,
                        .distance_bias_gradient = &biases,
                        .threads = run.threads});
    // Largest seen in bf16: 3e-2. A gradient of biases is a sum over all queries, whose roundings
    // are left where its terms cancel: without cancellation it grows like √n.
    const double queries = std::sqrt(static_cast<double>(x.in.query.dimension(1)));
    const auto expect_close = [&](const char* name, const Tensor& got,
                                  const std::vector<double>& expected) {
      const double scale = std::max(largest(expected), &got == &biases && !fp32 ? queries / 2 : 0);
      const double difference = max_difference(got.to_floats(), expected) / scale;
      EXPECT_TRUE(difference <= (fp32 ? 3e-5 : 5e-2))
          << what << ", " << name_of(run.backend) << ", " << name << ", " << run.threads
          << " threads: off by " << difference;
    };
    expect_close("query", query, truth.query);
    expect_close("key", key, truth.key);
    expect_close("value", value, truth.value);
    expect_close("biases", biases, truth.distance_bias);
  }
}

void expect_exact(const std::string& what, const AttentionSpec& spec, Index reach, unsigned seed) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::string name = fmt::format("{}, R {}, {}", what, reach, name_of(dtype));
    const Biased x(spec, reach, seed, dtype);
    expect_forward(name, x);
    expect_backward(name, x);
    const Biased dropped(with_dropout(spec), reach, seed, dtype);
    expect_forward(name + ", dropout", dropped);
    expect_backward(name + ", dropout", dropped);
  }
}

TEST(DistanceBias, LengthsReachesAndDistances) {
  unsigned seed = 1;
  for (const Index n : {1, 2, 17, 48, 65, 130, 300}) {
    for (const Index reach : {Index{0}, Index{7}, Index{64}, kUnlimitedReach}) {
      for (const Index distances : {0, 5, 40, 400}) {
        expect_exact(fmt::format("n {}, reach {}", n, reach),
                     self_attention(n, 2, 16, symmetric(reach)), distances, seed += 10);
      }
    }
    if (HasFailure()) return;
  }
}

TEST(DistanceBias, HeadSizesMasksDocumentsAndDilations) {
  unsigned seed = 5000;
  for (const Index head_size : {1, 3, 20, 64, 96}) {
    for (const Index reach : {Index{9}, kUnlimitedReach}) {
      AttentionSpec spec = ragged({33, 0, 1, 150, 70}, 3, head_size, symmetric(reach));
      expect_exact(fmt::format("d {}", head_size), spec, 30, seed += 10);
      mask(spec, {0, 5, 6, 7, 34, 100, 101, 253});
      expect_exact(fmt::format("d {}, masked", head_size), spec, 30, seed += 10);
      spec.heads = {symmetric(reach, 2), previous(reach, 3), {2, reach, 1}};
      expect_exact(fmt::format("d {}, mixed heads", head_size), spec, 31, seed += 10);
      spec.causal = true;
      expect_exact(fmt::format("d {}, causal", head_size), spec, 31, seed += 10);
    }
  }
}

/// Chunks of keys, parts of a head and tasks of queries: more than one of each.
TEST(DistanceBias, LongDocuments) {
  AttentionSpec spec = self_attention(1300, 1, 64, symmetric(kUnlimitedReach));
  expect_exact("n 1300", spec, 1299, 2);
  mask(spec, {3, 700, 701, 1299});
  expect_exact("n 1300, masked", spec, 128, 3);
}

TEST(DistanceBias, QueriesElsewhereThanTheKeys) {
  for (const Index offset : {-30, 0, 5, 90}) {
    const AttentionSpec spec = with_documents(self_attention(0, 2, 8, symmetric(kUnlimitedReach)),
                                              {{.query_begin = 0,
                                                .query_count = 70,
                                                .key_begin = 4,
                                                .key_count = 100,
                                                .query_offset = offset}});
    expect_exact(fmt::format("offset {}", offset), spec, 60, 7);
  }
}

/// Slopes as steep as those of ALiBi, so that far keys are nothing.
TEST(DistanceBias, SteepSlopes) {
  Biased x(self_attention(900, 2, 32, symmetric(kUnlimitedReach)), 899, 3);
  for (Index head = 0; head < 2; ++head) {
    for (Index i = 0; i < 1799; ++i) {
      x.biases.data<float>()[head * 1799 + i] =
          -static_cast<float>(std::abs(i - 899)) * (head == 0 ? 0.5f : 0.01f);
    }
  }
  x.truth = reference_attention<double>(x.spec, x.in.query, x.in.key, x.in.value,
                                        {.distance_bias = &x.biases});
  expect_forward("slopes", x);
  expect_backward("slopes", x);
}

TEST(DistanceBias, ANaNOfAnyBitsShows) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::uint32_t bits : {0x7fc00000u, 0x7fffffffu, 0xffffffffu, 0x7fc00001u}) {
      Biased x(self_attention(90, 1, 16, symmetric(20)), 8, 3, dtype);
      // One key to the left of a query: all but the first query have it.
      x.biases.data<float>()[8 + 1] = std::bit_cast<float>(bits);
      const std::vector<float> out = run(AttentionBackend::fused, x, 1).out.to_floats();
      Index broken = 0;
      for (Index row = 0; row < 90; ++row) broken += std::isnan(out[at(row * 16)]) ? 1 : 0;
      EXPECT_EQ(broken, 89) << name_of(dtype) << " " << bits;
    }
  }
}

TEST(DistanceBias, GradientsOfTheReferenceAreCentralDifferences) {
  const AttentionSpec spec = ragged({3, 6}, 2, 3, symmetric(4));
  const Biased x(spec, 3, 9);
  const std::vector<float> weights = x.out_gradient.to_floats();
  const auto found = reference_attention_backward<double>(
      x.spec, x.in.query, x.in.key, x.in.value, x.out_gradient, {.distance_bias = &x.biases});
  constexpr double kStep = 1e-5;
  const std::vector<float> values = x.biases.to_floats();
  Tensor biases(x.biases.shape(), DType::f64);
  std::copy(values.begin(), values.end(), biases.data<double>());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto sum_at = [&](double value) {
      biases.data<double>()[i] = value;
      const auto out = reference_attention<double>(x.spec, x.in.query, x.in.key, x.in.value,
                                                   {.distance_bias = &biases})
                           .out;
      return std::inner_product(out.begin(), out.end(), weights.begin(), 0.0);
    };
    const double middle = values[i];
    const double slope = (sum_at(middle + kStep) - sum_at(middle - kStep)) / (2 * kStep);
    biases.data<double>()[i] = middle;
    EXPECT_TRUE(std::abs(slope - found.distance_bias[i]) <= 1e-8) << i;
  }
}

TEST(DistanceBias, Probabilities) {
  for (const Index reach : {Index{7}, kUnlimitedReach}) {
    for (const Index dilation : {1, 3}) {
      AttentionSpec spec = ragged({90, 1, 140}, 2, 16, symmetric(reach, dilation));
      mask(spec, {3, 4, 100, 151});
      const Biased x(spec, 20, 5);
      for (const DocumentHead which : {DocumentHead{0, 0}, {1, 1}, {2, 1}}) {
        const ProbabilityLayout layout = probability_layout(x.spec, which);
        std::vector<float> found(at(layout.rows * layout.columns), std::nanf(""));
        attention_probabilities(x.spec, {x.in.query, x.in.key, &x.biases}, which, found, 2);
        const auto truth = reference_attention_probabilities<double>(x.spec, x.in.query, x.in.key,
                                                                     which, &x.biases);
        EXPECT_TRUE(max_difference(found, truth) <= 1e-6);
      }
    }
  }
}

TEST(DistanceBias, IsRefusedWhereItIsNotComputed) {
  const Biased x(self_attention(9, 2, 4, symmetric(2)), 3, 1);
  for (const AttentionBackend backend : {AttentionBackend::chunks, AttentionBackend::full}) {
    EXPECT_EQ(why_not(backend, x.spec).value_or("it can"),
              "biases by distance are left to the fused backend, to the loop and to OpenCL");
  }
  const auto error = [&](const std::function<void(Biased&)>& spoil) {
    Biased bad = x;
    spoil(bad);
    return error_of([&] { run(AttentionBackend::fused, bad, 1); });
  };
  EXPECT_EQ(error([](Biased&) {}), "no error");
  EXPECT_EQ(error([](Biased& bad) { bad.spec.distance_bias = false; }),
            "attention: expected biases exactly when the spec has biases by distance");
  EXPECT_EQ(error([](Biased& bad) {
              bad.biases = random_tensor({3, 7}, 1);
            }),
            "attention: expected biases by distance [2, 7], found [3, 7]");
  EXPECT_EQ(error([](Biased& bad) {
              bad.biases = random_tensor({2, 6}, 1);
            }),
            "attention: expected biases of as many distances on either side, found 6");
  EXPECT_EQ(error([](Biased& bad) { bad.biases = bad.biases.to(DType::bf16); }),
            "attention: expected biases by distance in fp32, found bf16");
  EXPECT_EQ(error([](Biased& bad) { edit(bad.spec).global_keys = {1}; }),
            "attention: expected no global keys with biases or keys of distances, found 1");
}

}  // namespace
}  // namespace longformer::kernels::distance_bias_test
