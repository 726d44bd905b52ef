// Relative positions in both directions (RowPlaces), and scores of kinds of keys: forward, backward
// and probabilities against the scalar reference, over odd sizes.
//
// Reruns: tsan isa
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "attention_training_testing.h"
#include "kernels/attention/probabilities.h"

namespace longformer::kernels::row_places_test {
namespace {

/// Keys of documents, and how their queries lie among them: `step` keys apart, the first row of
/// both without a place, keys of three kinds.
struct Form {
  std::vector<Index> lengths;
  Index step = 1, head_size = 16;
  bool is_first_apart = true, has_kinds = true, is_masked = false, drops = false;

  std::string name() const {
    return fmt::format("lengths {}, step {}, d {}, first apart {}, kinds {}, masked {}, dropout {}",
                       fmt::join(lengths, "+"), step, head_size, is_first_apart, has_kinds,
                       is_masked, drops);
  }
};

constexpr Index kHeads = 2, kKinds = 3;

AttentionSpec spec_of(const Form& form) {
  AttentionSpec spec;
  spec.head_size = form.head_size;
  spec.heads.assign(kHeads, symmetric(kUnlimitedReach));
  spec.relative_positions = true;
  if (form.drops) spec.dropout = {.rate = 0.3f, .seed = 11};
  AttentionRows rows;
  RowPlaces places;
  Index farthest = 0;
  for (const Index keys : form.lengths) {
    const Index queries = divide_up(keys, form.step);
    rows.documents.push_back({.query_begin = std::ssize(places.queries),
                              .query_count = queries,
                              .key_begin = std::ssize(places.keys),
                              .key_count = keys});
    for (Index i = 0; i < queries; ++i) {
      const bool has_place = i > 0 || !form.is_first_apart;
      places.queries.push_back(has_place ? form.step * i : RowPlaces::kNone);
    }
    for (Index j = 0; j < keys; ++j) {
      const bool has_place = j > 0 || !form.is_first_apart;
      places.keys.push_back(has_place ? j : RowPlaces::kNone);
      if (form.has_kinds) {
        places.key_kinds.push_back(has_place ? static_cast<std::uint8_t>(j * j % kKinds)
                                             : RowPlaces::kNoKind);
      }
      if (form.is_masked) rows.key_mask.push_back(j % 7 == 3 ? 0 : 1);
    }
    farthest = std::max(farthest, keys - 1);
  }
  places.origin = farthest;
  rows.places = std::move(places);
  spec.rows = shared(std::move(rows));
  return spec;
}

struct Placed {
  AttentionSpec spec;
  Inputs in;
  Tensor content, position, keys, scores, out_gradient;
  RelativePositions relative;
  ReferenceAttention<double> truth;
  ReferenceGradients<double> gradients;

  Placed(const Form& form, unsigned seed, DType dtype)
      : spec(spec_of(form)),
        in(random_inputs(spec, seed, dtype)),
        content(random_tensor({kHeads, form.head_size}, seed + 3)),
        position(random_tensor({kHeads, form.head_size}, seed + 4)),
        keys(random_tensor({kHeads, 2 * spec.rows->places->origin + 1, form.head_size}, seed + 5,
                           dtype)),
        scores(random_tensor({kHeads, spec.rows->query_count(), kKinds}, seed + 6)),
        out_gradient(
            random_tensor({spec.rows->query_count(), kHeads * form.head_size}, seed + 7, dtype)),
        relative{content, position, keys, form.has_kinds ? &scores : nullptr},
        truth(
            reference_attention<double>(spec, in.query, in.key, in.value, {.relative = &relative})),
        gradients(reference_attention_backward<double>(spec, in.query, in.key, in.value,
                                                       out_gradient, {.relative = &relative})) {}
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;
};

double largest(const std::vector<double>& values) {
  double largest = 1;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

void expect_forward(const std::string& what, const Placed& x, int threads) {
  const bool fp32 = x.in.query.dtype() == DType::f32;
  Tensor out = unwritten(x.out_gradient);
  Tensor logsumexp = unwritten(Tensor({kHeads, x.spec.rows->query_count()}, DType::f32));
  attention(AttentionBackend::fused, x.spec,
            {.query = x.in.query,
             .key = x.in.key,
             .value = x.in.value,
             .out = out,
             .logsumexp = &logsumexp,
             .threads = threads,
             .relative = &x.relative});
  const double difference = max_difference(out.to_floats(), x.truth.out);
  EXPECT_TRUE(difference <= (fp32 ? 1e-5 : 6e-2)) << what << ": out off by " << difference;
  const double sums = max_difference(logsumexp.to_floats(), x.truth.logsumexp);
  EXPECT_TRUE(sums <= (fp32 ? 1e-5 : 6e-2)) << what << ": logsumexp off by " << sums;
}

void expect_backward(const std::string& what, const Placed& x, int threads) {
  const bool fp32 = x.in.query.dtype() == DType::f32;
  const ReferenceGradients<double>& truth = x.gradients;
  const Tensor out = Tensor::from(std::vector<float>(x.truth.out.begin(), x.truth.out.end()),
                                  x.out_gradient.shape())
                         .to(x.in.query.dtype());
  const Tensor logsumexp =
      Tensor::from(std::vector<float>(x.truth.logsumexp.begin(), x.truth.logsumexp.end()),
                   {kHeads, x.spec.rows->query_count()});
  Tensor query = unwritten(x.in.query), key = unwritten(x.in.key), value = unwritten(x.in.value);
  Tensor content = unwritten(x.content), position = unwritten(x.position), keys = unwritten(x.keys),
         scores = unwritten(x.scores);
  const bool has_kinds = x.relative.kind_scores != nullptr;
  const RelativeGradients gradients = {content, position, keys, has_kinds ? &scores : nullptr};
  attention_backward(x.spec, {.query = x.in.query,
                              .key = x.in.key,
                              .value = x.in.value,
                              .out = out,
                              .logsumexp = logsumexp,
                              .out_gradient = x.out_gradient,
                              .query_gradient = query,
                              .key_gradient = key,
                              .value_gradient = value,
                              .relative = &x.relative,
                              .relative_gradients = &gradients,
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
  expect_close("content bias", content, truth.content_bias);
  expect_close("position bias", position, truth.position_bias);
  expect_close("relative keys", keys, truth.relative_keys);
  if (has_kinds) expect_close("scores of kinds", scores, truth.kind_scores);
}

void expect_exact(const Form& form, unsigned seed) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    // Nothing evens out the roundings of one number.
    if (dtype == DType::bf16 && form.head_size == 1) continue;
    const Placed x(form, seed, dtype);
    const std::string what = fmt::format("{}, {}", form.name(), name_of(dtype));
    for (const int threads : {1, 2}) {
      expect_forward(what, x, threads);
      expect_backward(what, x, threads);
    }
  }
}

TEST(RowPlaces, LengthsAndSteps) {
  unsigned seed = 1;
  for (const Index n : {1, 2, 17, 48, 65, 130}) {
    for (const Index step : {1, 2}) {
      expect_exact({.lengths = {n}, .step = step}, seed += 10);
      expect_exact({.lengths = {n}, .step = step, .is_first_apart = false, .drops = true},
                   seed += 10);
    }
    if (HasFailure()) return;
  }
}

TEST(RowPlaces, HeadSizesMasksAndDocuments) {
  unsigned seed = 5000;
  for (const Index head_size : {1, 3, 20, 64}) {
    for (const Index step : {1, 2}) {
      const Form form = {.lengths = {33, 1, 90, 2}, .step = step, .head_size = head_size};
      expect_exact(form, seed += 10);
      Form other = form;
      other.is_masked = other.drops = true;
      expect_exact(other, seed += 10);
      other.has_kinds = false;
      expect_exact(other, seed += 10);
    }
    if (HasFailure()) return;
  }
}

/// Chunks of keys, parts of a head and tasks of queries: more than one of each.
TEST(RowPlaces, LongDocuments) {
  expect_exact({.lengths = {1301}, .head_size = 20}, 1);
  expect_exact({.lengths = {1301}, .step = 2, .head_size = 64, .is_masked = true}, 3);
}

TEST(RowPlaces, GradientsOfTheReferenceAreCentralDifferences) {
  const Placed x({.lengths = {3, 6}, .step = 2, .head_size = 3}, 9, DType::f32);
  const std::vector<float> weights = x.out_gradient.to_floats();
  const ReferenceGradients<double>& found = x.gradients;
  constexpr double kStep = 1e-5;
  const auto expect_slopes = [&](const Tensor& given, const std::vector<double>& slopes,
                                 auto relative_with) {
    const std::vector<float> values = given.to_floats();
    Tensor wide(given.shape(), DType::f64);
    std::copy(values.begin(), values.end(), wide.data<double>());
    const RelativePositions relative = relative_with(wide);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto sum_at = [&](double value) {
        wide.data<double>()[i] = value;
        const auto out = reference_attention<double>(x.spec, x.in.query, x.in.key, x.in.value,
                                                     {.relative = &relative})
                             .out;
        return std::inner_product(out.begin(), out.end(), weights.begin(), 0.0);
      };
      const double middle = values[i];
      const double slope = (sum_at(middle + kStep) - sum_at(middle - kStep)) / (2 * kStep);
      wide.data<double>()[i] = middle;
      EXPECT_TRUE(std::abs(slope - slopes[i]) <= 1e-8) << i;
    }
  };
  expect_slopes(x.keys, found.relative_keys, [&](const Tensor& keys) {
    return RelativePositions{x.content, x.position, keys, &x.scores};
  });
  expect_slopes(x.scores, found.kind_scores, [&](const Tensor& scores) {
    return RelativePositions{x.content, x.position, x.keys, &scores};
  });
}

/// Attention to values that name their key is the probabilities.
TEST(RowPlaces, Probabilities) {
  const Form form = {.lengths = {20, 1, 31}, .step = 2, .head_size = 64, .is_masked = true};
  const Placed x(form, 5, DType::f32);
  for (const DocumentHead which : {DocumentHead{0, 0}, {1, 1}, {2, 1}}) {
    const auto& document = x.spec.rows->documents[at(which.document)];
    const ProbabilityLayout layout = probability_layout(x.spec, which);
    ASSERT_EQ(layout.columns, document.key_count);
    std::vector<float> found(at(layout.rows * layout.columns), std::nanf(""));
    attention_probabilities(x.spec, {.query = x.in.query, .key = x.in.key, .relative = &x.relative},
                            which, found, 2);
    Tensor value = Tensor::zeros(x.in.value.shape(), DType::f32);
    for (Index j = 0; j < document.key_count; ++j) {
      const Index row = which.head * x.spec.rows->key_count() + document.key_begin + j;
      value.data<float>()[row * 64 + j] = 1;
    }
    const auto truth =
        reference_attention<double>(x.spec, x.in.query, x.in.key, value, {.relative = &x.relative})
            .out;
    for (Index i = 0; i < layout.rows; ++i) {
      for (Index j = 0; j < document.key_count; ++j) {
        const Index query = document.query_begin + i;
        const double expected = truth[at((query * kHeads + which.head) * 64 + j)];
        EXPECT_TRUE(std::abs(found[at(i * layout.columns + j)] - expected) <= 1e-6)
            << i << " " << j;
      }
    }
  }
}

TEST(RowPlaces, WhatDoesNotFitIsRefused) {
  const Placed x({.lengths = {9}, .head_size = 4}, 1, DType::f32);
  const auto error = [&](const std::function<void(AttentionSpec&, RowPlaces&)>& spoil) {
    AttentionSpec spec = x.spec;
    AttentionRows rows = *spec.rows;
    spoil(spec, *rows.places);
    spec.rows = shared(std::move(rows));
    Tensor out = unwritten(x.out_gradient);
    return error_of([&] {
      attention(AttentionBackend::fused, spec,
                {.query = x.in.query,
                 .key = x.in.key,
                 .value = x.in.value,
                 .out = out,
                 .relative = &x.relative});
    });
  };
  EXPECT_EQ(error([](AttentionSpec&, RowPlaces&) {}), "no error");
  EXPECT_EQ(error([](AttentionSpec&, RowPlaces& p) { p.keys.pop_back(); }),
            "attention: expected places of 9 queries and 9 keys, found 9 and 8");
  EXPECT_EQ(error([](AttentionSpec&, RowPlaces& p) { p.queries[3] = 2; }),
            "attention: expected ascending places of queries, found 2 after 2");
  EXPECT_EQ(error([](AttentionSpec&, RowPlaces& p) { p.origin = 5; }),
            "attention: expected relative keys for the distances -7 to 7, found -5 to 11");
  EXPECT_EQ(error([](AttentionSpec&, RowPlaces& p) { p.queries[8] = 10; }),
            "attention: expected relative keys for the distances -7 to 9, found -8 to 8");
  EXPECT_EQ(error([](AttentionSpec&, RowPlaces& p) { p.key_kinds[2] = 3; }),
            "attention: expected kinds of keys below 3, found 3");
  EXPECT_EQ(error([](AttentionSpec&, RowPlaces& p) { p.key_kinds.clear(); }),
            "attention: expected scores of kinds exactly when keys have kinds");
  EXPECT_EQ(error([](AttentionSpec& s, RowPlaces&) { s.heads[1].dilation = 2; }),
            "attention: head 1: expected a dilation of 1 with places of rows, found 2");
}

}  // namespace
}  // namespace longformer::kernels::row_places_test
