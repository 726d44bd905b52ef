// Keys and queries of distances in attention (DeBERTa): forward, backward and probabilities against
// the scalar reference, over odd sizes.
//
// Reruns: tsan isa
#include "kernels/attention/distance_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "attention_training_testing.h"
#include "kernels/attention/probabilities.h"

namespace longformer::kernels::distance_keys_test {
namespace {

/// Which terms there are, and how distances share rows.
struct Form {
  bool keys = true, queries = true;
  Index reach = 20, exact = 8;

  std::string name() const {
    return fmt::format("keys {}, queries {}, R {}, exact {}", keys, queries, reach, exact);
  }
};

/// Distances up to `exact` have a row of their own, farther ones three together.
std::vector<std::int32_t> rows_of(const Form& form) {
  std::vector<std::int32_t> rows;
  const auto row = [&](Index distance) {
    const Index steps = std::abs(distance);
    const Index far = steps <= form.exact ? steps : form.exact + 1 + (steps - form.exact) / 3;
    return distance < 0 ? -far : far;
  };
  const Index first = row(-form.reach);
  for (Index t = -form.reach; t <= form.reach; ++t) {
    rows.push_back(static_cast<std::int32_t>(row(t) - first));
  }
  return rows;
}

struct Disentangled {
  AttentionSpec spec;
  Inputs in;
  std::vector<std::int32_t> rows;
  Tensor keys, queries, out_gradient;
  DistanceKeys distances;
  ReferenceAttention<double> truth;

  Disentangled(const AttentionSpec& given, const Form& form, unsigned seed,
               DType dtype = DType::f32)
      : spec(given), in(random_inputs(given, seed, dtype)), rows(rows_of(form)) {
    spec.distance_keys = true;
    const auto heads = static_cast<Index>(spec.heads.size());
    const Shape shape = {heads, rows.back() + 1, spec.head_size};
    keys = random_tensor(shape, seed + 3, dtype);
    queries = random_tensor(shape, seed + 4, dtype);
    out_gradient =
        random_tensor({spec.rows->query_count(), heads * spec.head_size}, seed + 5, dtype);
    distances = {.keys = form.keys ? &keys : nullptr,
                 .queries = form.queries ? &queries : nullptr,
                 .rows = rows};
    truth = reference_attention<double>(spec, in.query, in.key, in.value,
                                        {.distance_keys = &distances});
  }
  Disentangled(const Disentangled&) = delete;
  Disentangled& operator=(const Disentangled&) = delete;
};

double largest(const std::vector<double>& values) {
  double largest = 1;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

void expect_forward(const std::string& what, const Disentangled& x) {
  const bool fp32 = x.in.query.dtype() == DType::f32;
  for (const int threads : {1, 2}) {
    Tensor out = unwritten(x.out_gradient);
    Tensor logsumexp = unwritten(
        Tensor({static_cast<Index>(x.spec.heads.size()), x.spec.rows->query_count()}, DType::f32));
    attention(AttentionBackend::fused, x.spec,
              {.query = x.in.query,
               .key = x.in.key,
               .value = x.in.value,
               .out = out,
               .logsumexp = &logsumexp,
               .threads = threads,
               .distance_keys = &x.distances});
    const double difference = max_difference(out.to_floats(), x.truth.out);
    EXPECT_TRUE(difference <= (fp32 ? 1e-5 : 5e-2)) << what << ": out off by " << difference;
    const double sums = max_difference(logsumexp.to_floats(), x.truth.logsumexp);
    EXPECT_TRUE(sums <= (fp32 ? 1e-5 : 5e-2)) << what << ": logsumexp off by " << sums;
  }
}

void expect_backward(const std::string& what, const Disentangled& x) {
  const bool fp32 = x.in.query.dtype() == DType::f32;
  const auto truth = reference_attention_backward<double>(
      x.spec, x.in.query, x.in.key, x.in.value, x.out_gradient, {.distance_keys = &x.distances});
  const Tensor out = Tensor::from(std::vector<float>(x.truth.out.begin(), x.truth.out.end()),
                                  x.out_gradient.shape())
                         .to(x.in.query.dtype());
  const Tensor logsumexp =
      Tensor::from(std::vector<float>(x.truth.logsumexp.begin(), x.truth.logsumexp.end()),
                   {static_cast<Index>(x.spec.heads.size()), x.spec.rows->query_count()});
  for (const int threads : {1, 2}) {
    Tensor query = unwritten(x.in.query), key = unwritten(x.in.key), value = unwritten(x.in.value);
    Tensor keys = unwritten(x.keys), queries = unwritten(x.queries);
    attention_backward(
        x.spec, {.query = x.in.query,
                 .key = x.in.key,
                 .value = x.in.value,
                 .out = out,
                 .logsumexp = logsumexp,
                 .out_gradient = x.out_gradient,
                 .query_gradient = query,
                 .key_gradient = key,
                 .value_gradient = value,
                 .distance_keys = &x.distances,
                 .distance_key_gradients = {.keys = x.distances.keys ? &keys : nullptr,
                                            .queries = x.distances.queries ? &queries : nullptr},
                 .threads = threads});
    const auto expect_close = [&](const char* name, const Tensor& got,
                                  const std::vector<double>& expected) {
      const double difference = max_difference(got.to_floats(), expected) / largest(expected);
      EXPECT_TRUE(difference <= (fp32 ? 2e-5 : 4e-2))
          << what << ", " << name << ", " << threads << " threads: off by " << difference;
    };
    expect_close("query", query, truth.query);
    expect_close("key", key, truth.key);
    expect_close("value", value, truth.value);
    if (x.distances.keys != nullptr) expect_close("keys", keys, truth.distance_keys);
    if (x.distances.queries != nullptr) expect_close("queries", queries, truth.distance_queries);
  }
}

void expect_exact(const std::string& what, const AttentionSpec& spec, const Form& form,
                  unsigned seed) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::string name = fmt::format("{}, {}, {}", what, form.name(), name_of(dtype));
    const Disentangled x(spec, form, seed, dtype);
    expect_forward(name, x);
    expect_backward(name, x);
    const Disentangled dropped(with_dropout(spec), form, seed, dtype);
    expect_forward(name + ", dropout", dropped);
    expect_backward(name + ", dropout", dropped);
  }
}

TEST(DistanceKeys, LengthsAndForms) {
  unsigned seed = 1;
  for (const Index n : {1, 2, 17, 48, 65, 130, 300}) {
    for (const Form& form :
         {Form{}, Form{.queries = false}, Form{.keys = false}, Form{.reach = 0, .exact = 0},
          Form{.reach = 400, .exact = 100}, Form{.reach = 60, .exact = 0}}) {
      expect_exact(fmt::format("n {}", n), self_attention(n, 2, 16, symmetric(kUnlimitedReach)),
                   form, seed += 10);
    }
    if (HasFailure()) return;
  }
}

TEST(DistanceKeys, HeadSizesMasksDocumentsAndWindows) {
  unsigned seed = 5000;
  for (const Index head_size : {1, 3, 20, 64, 96}) {
    for (const Index reach : {Index{9}, kUnlimitedReach}) {
      AttentionSpec spec = ragged({33, 0, 1, 150, 70}, 3, head_size, symmetric(reach));
      expect_exact(fmt::format("d {}", head_size), spec, {}, seed += 10);
      mask(spec, {0, 5, 6, 7, 34, 100, 101, 253});
      expect_exact(fmt::format("d {}, masked", head_size), spec, {}, seed += 10);
      spec.causal = true;
      expect_exact(fmt::format("d {}, causal", head_size), spec, {}, seed += 10);
    }
  }
}

/// Chunks of keys, parts of a head and tasks of queries: more than one of each.
TEST(DistanceKeys, LongDocuments) {
  AttentionSpec spec = self_attention(1300, 1, 64, symmetric(kUnlimitedReach));
  expect_exact("n 1300", spec, {.reach = 700, .exact = 128}, 1);
  mask(spec, {3, 700, 701, 1299});
  expect_exact("n 1300, masked", spec, {.reach = 1299, .exact = 40}, 3);
}

TEST(DistanceKeys, GradientsOfTheReferenceAreCentralDifferences) {
  const Disentangled x(ragged({3, 6}, 2, 3, symmetric(4)), {.reach = 4, .exact = 2}, 9);
  const std::vector<float> weights = x.out_gradient.to_floats();
  const auto found = reference_attention_backward<double>(
      x.spec, x.in.query, x.in.key, x.in.value, x.out_gradient, {.distance_keys = &x.distances});
  constexpr double kStep = 1e-5;
  const auto expect_slopes = [&](const Tensor& given, const std::vector<double>& slopes,
                                 const Tensor* DistanceKeys::*part) {
    const std::vector<float> values = given.to_floats();
    Tensor wide(given.shape(), DType::f64);
    std::copy(values.begin(), values.end(), wide.data<double>());
    DistanceKeys distances = x.distances;
    distances.*part = &wide;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto sum_at = [&](double value) {
        wide.data<double>()[i] = value;
        const auto out = reference_attention<double>(x.spec, x.in.query, x.in.key, x.in.value,
                                                     {.distance_keys = &distances})
                             .out;
        return std::inner_product(out.begin(), out.end(), weights.begin(), 0.0);
      };
      const double middle = values[i];
      const double slope = (sum_at(middle + kStep) - sum_at(middle - kStep)) / (2 * kStep);
      wide.data<double>()[i] = middle;
      EXPECT_TRUE(std::abs(slope - slopes[i]) <= 1e-8) << i;
    }
  };
  expect_slopes(x.keys, found.distance_keys, &DistanceKeys::keys);
  expect_slopes(x.queries, found.distance_queries, &DistanceKeys::queries);
}

/// Attention to values that name their key is the probabilities.
TEST(DistanceKeys, Probabilities) {
  for (const Index reach : {Index{7}, kUnlimitedReach}) {
    AttentionSpec spec = ragged({20, 1, 30}, 2, 32, symmetric(reach));
    mask(spec, {3, 4, 40});
    Disentangled x(spec, {}, 5);
    for (const DocumentHead which : {DocumentHead{0, 0}, {1, 1}, {2, 1}}) {
      const auto& document = x.spec.rows->documents[at(which.document)];
      const ProbabilityLayout layout = probability_layout(x.spec, which);
      std::vector<float> found(at(layout.rows * layout.columns), std::nanf(""));
      attention_probabilities(x.spec, {x.in.query, x.in.key, nullptr, &x.distances}, which, found,
                              2);
      Tensor value = Tensor::zeros(x.in.value.shape(), DType::f32);
      for (Index j = 0; j < document.key_count; ++j) {
        const Index row = which.head * 51 + document.key_begin + j;
        value.data<float>()[row * 32 + j] = 1;
      }
      const auto truth = reference_attention<double>(x.spec, x.in.query, x.in.key, value,
                                                     {.distance_keys = &x.distances})
                             .out;
      for (Index i = 0; i < layout.rows; ++i) {
        for (Index j = 0; j < document.key_count; ++j) {
          const Index offset = j - i;
          if (!layout.dense && std::abs(offset) > reach) continue;
          const Index column = layout.dense ? j : reach + offset;
          const double expected = truth[at(((document.query_begin + i) * 2 + which.head) * 32 + j)];
          EXPECT_TRUE(std::abs(found[at(i * layout.columns + column)] - expected) <= 1e-6);
        }
      }
    }
  }
}

TEST(DistanceKeys, AreRefusedWhereTheyAreNotComputed) {
  const Disentangled x(self_attention(9, 2, 4, symmetric(2)), {}, 1);
  for (const AttentionBackend backend :
       {AttentionBackend::loop, AttentionBackend::chunks, AttentionBackend::full}) {
    EXPECT_EQ(why_not(backend, x.spec).value_or("it can"),
              "keys of distances are left to the fused backend");
  }
  const auto error = [&](const std::function<void(AttentionSpec&, DistanceKeys&)>& spoil) {
    AttentionSpec spec = x.spec;
    DistanceKeys distances = x.distances;
    spoil(spec, distances);
    Tensor out = unwritten(x.out_gradient);
    return error_of([&] {
      attention(AttentionBackend::fused, spec,
                {.query = x.in.query,
                 .key = x.in.key,
                 .value = x.in.value,
                 .out = out,
                 .distance_keys = &distances});
    });
  };
  EXPECT_EQ(error([](AttentionSpec&, DistanceKeys&) {}), "no error");
  const Tensor narrow = random_tensor({2, 27, 3}, 1);
  EXPECT_NE(error([&](AttentionSpec&, DistanceKeys& bad) {
              bad.keys = &narrow;
            }).find("keys and queries of distances"),
            std::string::npos);
  EXPECT_NE(error([](AttentionSpec&, DistanceKeys& bad) {
              bad.rows = bad.rows.first(2);
            }).find("as many distances on either side"),
            std::string::npos);
  const std::vector<std::int32_t> falling = {1, 0, 2};
  EXPECT_NE(
      error([&](AttentionSpec&, DistanceKeys& bad) { bad.rows = falling; }).find("ascending rows"),
      std::string::npos);
  EXPECT_NE(error([](AttentionSpec& bad, DistanceKeys&) {
              bad.heads[1].dilation = 2;
            }).find("dilation of 1"),
            std::string::npos);
}

}  // namespace
}  // namespace longformer::kernels::distance_keys_test
