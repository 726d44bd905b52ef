// Properties of attention for any numbers: who sees whom, what changes nothing, and the golden
// vectors of a Longformer layer.
//
// Reruns: tsan isa
#include <gtest/gtest.h>

#include <algorithm>

#include "attention_testing.h"
#include "kernels/reference.h"

namespace longformer::kernels::attention_properties_test {
namespace {

// ---- who sees whom, read off the result ----

/// Equal scores and one-hot values make out[i][j] 1 / (number of visible keys) where i sees j. An
/// online softmax may leave 2^-126 where it does not.
std::vector<std::vector<Index>> visible_keys(AttentionBackend backend, const AttentionSpec& spec) {
  const Index n = spec.rows->key_count();
  Inputs in = random_inputs(spec, 1);
  std::fill_n(in.query.data<float>(), in.query.size(), 0.0f);
  std::fill_n(in.value.data<float>(), in.value.size(), 0.0f);
  for (Index j = 0; j < n; ++j) in.value.data<float>()[j * n + j] = 1;
  const Result result = run(backend, spec, in);
  std::vector<std::vector<Index>> seen(static_cast<std::size_t>(spec.rows->query_count()));
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const float* row = result.out.data() + static_cast<Index>(i) * n;
    for (Index j = 0; j < n; ++j) {
      if (row[j] > 1e-30f) seen[i].push_back(j);
    }
    for (const Index j : seen[i]) {
      EXPECT_NEAR(row[j], 1.0 / static_cast<double>(seen[i].size()), 1e-6);
    }
  }
  return seen;
}

TEST(Visibility, DilatedCausalKeys) {
  for (const AttentionBackend backend : every_backend()) {
    AttentionSpec spec = self_attention(12, 1, 12, previous(3, 2));
    if (why_not(backend, spec)) continue;
    EXPECT_EQ(visible_keys(backend, spec)[7], (std::vector<Index>{1, 3, 5, 7})) << name_of(backend);
    EXPECT_EQ(visible_keys(backend, spec)[2], (std::vector<Index>{0, 2})) << name_of(backend);
    spec.heads = {previous(3)};
    EXPECT_EQ(visible_keys(backend, spec)[5], (std::vector<Index>{2, 3, 4, 5})) << name_of(backend);
    spec.heads = {symmetric(3)};
    spec.causal = true;
    if (why_not(backend, spec)) continue;
    EXPECT_EQ(visible_keys(backend, spec)[5], (std::vector<Index>{2, 3, 4, 5})) << name_of(backend);
  }
}

TEST(Visibility, EachKeyCountsOnce) {
  for (const AttentionBackend backend : every_backend()) {
    AttentionSpec spec = self_attention(9, 1, 9, symmetric(1));
    edit(spec).global_keys = {0, 4};
    EXPECT_EQ(visible_keys(backend, spec)[3], (std::vector<Index>{0, 2, 3, 4})) << name_of(backend);
    EXPECT_EQ(visible_keys(backend, spec)[4], (std::vector<Index>{0, 3, 4, 5})) << name_of(backend);
    spec.global_queries = GlobalQueries::see_everything;
    EXPECT_EQ(visible_keys(backend, spec)[4], all_rows(9)) << name_of(backend);
    mask(spec, {3, 8});
    EXPECT_EQ(visible_keys(backend, spec)[4], (std::vector<Index>{0, 1, 2, 4, 5, 6, 7}));
    EXPECT_EQ(visible_keys(backend, spec)[3], (std::vector<Index>{})) << name_of(backend);
    EXPECT_EQ(visible_keys(backend, spec)[7], (std::vector<Index>{0, 4, 6, 7})) << name_of(backend);
  }
}

TEST(Visibility, PairsAreCountedExactly) {
  std::mt19937 generator(77);
  for (int trial = 0; trial < 60; ++trial) {
    AttentionSpec spec = random_spec(generator);
    if (trial % 3 == 0 && spec.rows->global_keys.empty()) {
      edit(spec).key_mask.clear();
      set_documents(spec, {{0, 30, 0, 50, trial - 20}});
    }
    double counted = 0;
    for (std::size_t head = 0; head < spec.heads.size(); ++head) {
      for (const AttentionDocument& document : spec.rows->documents) {
        for (Index i = 0; i < document.query_count; ++i) {
          for (Index j = 0; j < document.key_count; ++j) {
            counted += sees(spec, document, static_cast<Index>(head), document.query_begin + i,
                            document.key_begin + j);
          }
        }
      }
    }
    EXPECT_EQ(visible_pairs(spec), counted) << "trial " << trial;
  }
  const double n = 4096;
  EXPECT_EQ(visible_pairs(self_attention(4096, 12, 64, symmetric(256))),
            12 * (n * 513 - 256 * 257));
}

// ---- properties ----

/// Softmax attention over all keys, written without any of the code under test.
std::vector<double> dense_attention(const std::vector<double>& q, const std::vector<double>& k,
                                    const std::vector<double>& v, Index n, Index d) {
  std::vector<double> out(static_cast<std::size_t>(n * d));
  for (Index i = 0; i < n; ++i) {
    std::vector<double> weights(static_cast<std::size_t>(n));
    double sum = 0;
    for (Index j = 0; j < n; ++j) {
      double score = 0;
      for (Index c = 0; c < d; ++c) score += q[i * d + c] * k[j * d + c];
      sum += weights[j] = std::exp(score / std::sqrt(static_cast<double>(d)));
    }
    for (Index j = 0; j < n; ++j) {
      for (Index c = 0; c < d; ++c) out[i * d + c] += weights[j] / sum * v[j * d + c];
    }
  }
  return out;
}

std::vector<double> widened(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

TEST(Properties, AWindowThatCoversEverythingIsDenseAttention) {
  const Index n = 37;
  for (const Index reach : {n - 1, n + 100, kUnlimitedReach}) {
    const AttentionSpec spec = self_attention(n, 1, 8, symmetric(reach));
    const Inputs in = random_inputs(spec, 30);
    const auto dense = dense_attention(widened(in.query.to_floats()), widened(in.key.to_floats()),
                                       widened(in.value.to_floats()), n, 8);
    const auto truth = reference_attention<double>(spec, in.query, in.key, in.value);
    EXPECT_TRUE(max_difference(truth.out, dense) <= 1e-13);
    for (const AttentionBackend backend : every_backend()) {
      EXPECT_TRUE(max_difference(run(backend, spec, in).out, dense) <= 2e-6) << name_of(backend);
    }
  }
}

TEST(Properties, UnderACoveringWindowGlobalsChangeNothing) {
  const Index n = 45;
  AttentionSpec spec = self_attention(n, 2, 8, symmetric(n - 1));
  const Inputs in = random_inputs(spec, 31);
  for (const AttentionBackend backend : every_backend()) {
    edit(spec).global_keys = {};
    const Result without = run(backend, spec, in);
    for (const auto queries : {GlobalQueries::windowed, GlobalQueries::see_everything}) {
      spec.global_queries = queries;
      edit(spec).global_keys = {0, 7, 8, 44};
      EXPECT_TRUE(max_difference(run(backend, spec, in).out, without.out) <= 2e-6)
          << name_of(backend);
    }
  }
}

/// The first `rows` rows of every head of [H, n, d].
Tensor head_rows(const Tensor& tensor, Index begin, Index rows) {
  const Index heads = tensor.dimension(0);
  const Index d = tensor.dimension(2);
  Tensor part({heads, rows, d}, DType::f32);
  for (Index head = 0; head < heads; ++head) {
    const float* source = tensor.data<float>() + (head * tensor.dimension(1) + begin) * d;
    std::copy_n(source, rows * d, part.data<float>() + head * rows * d);
  }
  return part;
}

TEST(Properties, MaskedRowsBehindTheDocumentChangeNothing) {
  const Index n = 61;
  const Index padded = 96;
  AttentionSpec spec = self_attention(padded, 2, 8, symmetric(5));
  edit(spec).global_keys = {2, 30};
  const Inputs in = random_inputs(spec, 32);
  for (Index row = n; row < padded; ++row) mask(spec, {row});
  AttentionSpec shorter = self_attention(n, 2, 8, symmetric(5));
  edit(shorter).global_keys = spec.rows->global_keys;
  const Inputs part = {head_rows(in.query, 0, n), head_rows(in.key, 0, n),
                       head_rows(in.value, 0, n)};
  for (const AttentionBackend backend : every_backend()) {
    Result with = run(backend, spec, in);
    for (std::size_t i = n * 16; i < with.out.size(); ++i) EXPECT_EQ(with.out[i], 0);
    with.out.resize(n * 16);
    EXPECT_TRUE(max_difference(with.out, run(backend, shorter, part).out) <= 1e-6)
        << name_of(backend);
  }
}

TEST(Properties, DocumentsOfABatchDoNotMeet) {
  const std::vector<Index> lengths = {20, 3, 77};
  AttentionSpec batch = ragged(lengths, 2, 8, symmetric(6));
  edit(batch).global_keys = {0, 1, 23, 60};
  const Inputs in = random_inputs(batch, 33);
  for (const AttentionBackend backend : every_backend()) {
    const Result together = run(backend, batch, in);
    Index row = 0;
    for (const Index n : lengths) {
      AttentionSpec alone = self_attention(n, 2, 8, symmetric(6));
      for (const Index key : batch.rows->global_keys) {
        if (key >= row && key < row + n) edit(alone).global_keys.push_back(key - row);
      }
      const Inputs part = {head_rows(in.query, row, n), head_rows(in.key, row, n),
                           head_rows(in.value, row, n)};
      const std::vector<float> expected(together.out.begin() + row * 16,
                                        together.out.begin() + (row + n) * 16);
      EXPECT_TRUE(max_difference(run(backend, alone, part).out, expected) <= 1e-6)
          << name_of(backend);
      row += n;
    }
  }
}

TEST(Properties, AKeyIsFeltOnlyWithinTheReach) {
  const Index n = 90;
  const Index changed = 41;
  const AttentionSpec spec = self_attention(n, 1, 8, symmetric(7));
  const Inputs in = random_inputs(spec, 34);
  Inputs other = random_inputs(spec, 34);
  for (Index c = 0; c < 8; ++c) {
    other.key.data<float>()[changed * 8 + c] += 1;
    other.value.data<float>()[changed * 8 + c] += 1;
  }
  for (const AttentionBackend backend : every_backend()) {
    const Result before = run(backend, spec, in);
    const Result after = run(backend, spec, other);
    for (Index i = 0; i < n; ++i) {
      const bool moved = !std::equal(before.out.begin() + i * 8, before.out.begin() + i * 8 + 8,
                                     after.out.begin() + i * 8);
      EXPECT_EQ(moved, std::abs(i - changed) <= 7) << name_of(backend) << " row " << i;
    }
  }
}

TEST(Properties, CausalRowsDoNotFeelTheFuture) {
  AttentionSpec spec = self_attention(100, 1, 8, symmetric(9));
  spec.causal = true;
  edit(spec).global_keys = {0, 50, 99};
  spec.global_queries = GlobalQueries::see_everything;
  const Inputs in = random_inputs(spec, 35);
  Inputs other = random_inputs(spec, 35);
  for (Index i = 60 * 8; i < 100 * 8; ++i) {
    other.key.data<float>()[i] += 1;
    other.value.data<float>()[i] -= 1;
  }
  for (const AttentionBackend backend : every_backend()) {
    if (why_not(backend, spec)) continue;
    const Result before = run(backend, spec, in);
    const Result after = run(backend, spec, other);
    EXPECT_TRUE(std::equal(before.out.begin(), before.out.begin() + 60 * 8, after.out.begin()))
        << name_of(backend);
    EXPECT_NE(before.out, after.out);
  }
}

// ---- the Longformer layer ----

/// det(shape, s, c)[i] = c · sin(1 + 0.7 i + 1.3 s)
Tensor det(const Shape& shape, int s, double c) {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(c * std::sin(1 + 0.7 * static_cast<double>(i) + 1.3 * s));
  }
  return Tensor::from(values, shape);
}

ReferenceLongformerAttention golden_layer(const std::vector<std::uint8_t>& kinds) {
  ReferenceLongformerAttention layer;
  layer.hidden = det({8, 8}, 0, 1.0);
  const std::array linears = {&layer.query,        &layer.key,        &layer.value,
                              &layer.query_global, &layer.key_global, &layer.value_global};
  for (int t = 1; t <= 6; ++t) *linears[t - 1] = {det({8, 8}, t, 0.5), det({8}, t + 10, 0.1)};
  layer.heads = {symmetric(2), symmetric(2)};
  layer.kinds = kinds;
  return layer;
}

struct GoldenRow {
  Index row;
  std::vector<double> values;
};
struct GoldenCase {
  std::vector<std::uint8_t> kinds;
  std::vector<GoldenRow> rows;
};

const std::vector<double> kZeros(8, 0.0);
const std::vector<double> kAllLocalRow0 = {-1.502045, -2.165797, -1.856861, -0.715374,
                                           0.711480,  1.840246,  2.141789,  1.482183};

/// Made by the published implementation of the paper's authors.
const std::vector<GoldenCase> kGolden = {
    {{1, 1, 1, 1, 1, 1, 1, 1},
     {{0, kAllLocalRow0},
      {3, {0.101187, -1.052327, -1.732956, -1.636649, -0.737693, 0.498555, 1.509821, 1.843610}},
      {7, {0.573499, 1.716074, 2.088888, 1.523133, 0.279731, -1.098597, -1.984996, -1.980160}}}},
    {{2, 1, 1, 1, 1, 1, 1, 1},
     {{0, {1.579318, 0.942569, -0.116225, -1.120844, -1.432935, -1.345895, -0.655083, 0.328140}},
      {1, {-1.457864, -2.142799, -1.865370, -0.751570, 0.649217, 1.790895, 2.127501, 1.509372}},
      {3, {-0.116754, -1.202029, -1.747222, -1.509076, -0.512725, 0.705007, 1.605089, 1.784930}},
      {7, {0.572223, 1.713750, 2.086560, 1.521845, 0.279886, -1.097743, -1.983825, -1.979198}}}},
    {{2, 1, 1, 2, 1, 1, 0, 0},
     {{0, {0.042488, 0.330447, 0.471124, 0.402333, 0.566496, -0.259429, -0.969261, -1.245659}},
      {3, {-1.057932, 0.138133, 1.273239, 1.838835, 1.528012, 0.497678, -0.756404, -1.672596}},
      {5, {1.635395, 1.253649, 0.309710, -0.774182, -1.496175, -1.573242, -0.945326, 0.107149}},
      {6, kZeros},
      {7, kZeros}}},
    {{1, 1, 1, 1, 1, 0, 0, 0},
     {{0, kAllLocalRow0},
      {3, {0.100567, -1.054364, -1.735494, -1.638550, -0.737845, 0.499115, 1.510843, 1.844634}},
      {5, kZeros},
      {6, kZeros},
      {7, kZeros}}},
};

template <typename Real>
std::vector<Real> row_of(const std::vector<Real>& values, Index row) {
  return {values.begin() + row * 8, values.begin() + row * 8 + 8};
}

TEST(LongformerLayer, GoldenVectorsOfTheReference) {
  for (const GoldenCase& golden : kGolden) {
    const auto layer = golden_layer(golden.kinds);
    const auto in_double = reference_longformer_attention<double>(layer);
    const auto in_float = reference_longformer_attention<float>(layer);
    for (const auto& [row, values] : golden.rows) {
      EXPECT_TRUE(max_difference(row_of(in_double, row), values) <= 2e-6) << "row " << row;
      EXPECT_TRUE(max_difference(row_of(in_float, row), values) <= 2e-6) << "row " << row;
    }
  }
}

/// x·Wᵀ + b of the golden layer as [2 heads, 8 rows, 4].
Tensor head_major(const ReferenceLongformerAttention& layer, const ReferenceLinear& linear) {
  Tensor result({2, 8, 4}, DType::f32);
  const float* weight = linear.weight.data<float>();
  for (Index row = 0; row < 8; ++row) {
    for (Index o = 0; o < 8; ++o) {
      double sum = linear.bias.data<float>()[o];
      for (Index c = 0; c < 8; ++c) {
        sum += double(layer.hidden.data<float>()[row * 8 + c]) * double(weight[o * 8 + c]);
      }
      result.data<float>()[(o / 4 * 8 + row) * 4 + o % 4] = static_cast<float>(sum);
    }
  }
  return result;
}

TEST(LongformerLayer, GoldenVectorsOfTheBackends) {
  for (const GoldenCase& golden : kGolden) {
    const auto layer = golden_layer(golden.kinds);
    const Inputs local = {head_major(layer, layer.query), head_major(layer, layer.key),
                          head_major(layer, layer.value)};
    const Inputs global = {head_major(layer, layer.query_global),
                           head_major(layer, layer.key_global),
                           head_major(layer, layer.value_global)};
    AttentionSpec spec = self_attention(8, 2, 4, symmetric(2));
    for (Index i = 0; i < 8; ++i) {
      if (golden.kinds[i] == 2) edit(spec).global_keys.push_back(i);
      if (golden.kinds[i] == 0) mask(spec, {i});
    }
    AttentionSpec dense = spec;
    dense.global_queries = GlobalQueries::see_everything;
    for (const AttentionBackend backend : every_backend()) {
      const Result windowed = run(backend, spec, local);
      const Result everything = run(backend, dense, global);
      for (const auto& [row, values] : golden.rows) {
        const auto& out = golden.kinds[row] == 2 ? everything.out : windowed.out;
        EXPECT_TRUE(max_difference(row_of(out, row), values) <= 2e-6)
            << name_of(backend) << " row " << row;
      }
    }
  }
}

TEST(LongformerLayer, AllGlobalIsDenseAttentionWithTheGlobalProjections) {
  auto layer = golden_layer(std::vector<std::uint8_t>(8, 2));
  const auto result = reference_longformer_attention<double>(layer);
  for (const std::uint8_t kind : {1, 2}) {
    auto other = golden_layer(std::vector<std::uint8_t>(8, kind));
    other.heads = {symmetric(7), symmetric(7)};
    other.query = layer.query_global;
    other.key = layer.key_global;
    other.value = layer.value_global;
    EXPECT_TRUE(max_difference(reference_longformer_attention<double>(other), result) <= 1e-13);
  }
}

TEST(LongformerLayer, EqualProjectionsAndACoveringWindowMakeGlobalsInvisible) {
  auto layer = golden_layer(std::vector<std::uint8_t>(8, 1));
  layer.heads = {symmetric(7), symmetric(7)};
  layer.query_global = layer.query;
  layer.key_global = layer.key;
  layer.value_global = layer.value;
  const auto without = reference_longformer_attention<double>(layer);
  for (Index token = 0; token < 8; ++token) {
    layer.kinds[token] = 2;
    EXPECT_TRUE(max_difference(reference_longformer_attention<double>(layer), without) <= 1e-13);
  }
}

TEST(Fused, ADocumentHasTheSameBitsAloneAndInABatch) {
  const Index heads = 2, d = 16;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    AttentionSpec batch = ragged({700, 33, 1500}, heads, d, symmetric(40));
    edit(batch).global_keys = {0, 350, 701, 1000};
    const Inputs in = random_inputs(batch, 17, dtype);
    const Result together = run(AttentionBackend::fused, batch, in);
    for (const AttentionDocument& document : batch.rows->documents) {
      AttentionSpec alone = self_attention(document.query_count, heads, d, symmetric(40));
      for (const Index row : batch.rows->global_keys) {
        const Index place = row - document.key_begin;
        if (place >= 0 && place < document.key_count) edit(alone).global_keys.push_back(place);
      }
      const auto rows_of = [&](const Tensor& tensor) {
        std::vector<float> rows;
        for (Index head = 0; head < heads; ++head) {
          const auto all = tensor.reshaped({heads * batch.rows->key_count(), d});
          const auto part = all.slice_rows(head * batch.rows->key_count() + document.key_begin,
                                           document.key_count);
          const std::vector<float> values = part.to_floats();
          rows.insert(rows.end(), values.begin(), values.end());
        }
        return Tensor::from(rows, {heads, document.key_count, d}).to(dtype);
      };
      const Result single = run(AttentionBackend::fused, alone,
                                {rows_of(in.query), rows_of(in.key), rows_of(in.value)});
      const auto first = together.out.begin() + document.query_begin * heads * d;
      EXPECT_EQ(single.out, std::vector<float>(first, first + document.query_count * heads * d));
    }
  }
}

}  // namespace
}  // namespace longformer::kernels::attention_properties_test
