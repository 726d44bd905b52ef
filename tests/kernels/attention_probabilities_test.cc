// The probabilities that attention weighs values with, against the scalar reference and against
// what the backends make of them.
//
// Reruns: tsan isa
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "attention_testing.h"
#include "core/error.h"
#include "kernels/attention/probabilities.h"
#include "kernels/reference.h"

namespace longformer::kernels::attention_probabilities_test {
namespace {

/// Starts as NaN: what is left out shows.
std::vector<float> probabilities(const AttentionSpec& spec, const Inputs& in, DocumentHead which,
                                 int threads = 2) {
  const ProbabilityLayout layout = probability_layout(spec, which);
  std::vector<float> out(static_cast<std::size_t>(layout.rows * layout.columns), std::nanf(""));
  attention_probabilities(spec, {in.query, in.key}, which, out, threads);
  return out;
}

void for_each(const AttentionSpec& spec, const std::function<void(DocumentHead)>& body) {
  for (Index document = 0; document < static_cast<Index>(spec.rows->documents.size()); ++document) {
    for (Index head = 0; head < static_cast<Index>(spec.heads.size()); ++head) {
      body({document, head});
    }
  }
}

bool has_band_form(const AttentionSpec& spec) {
  bool any = false;
  for_each(spec, [&](DocumentHead which) { any = any || !probability_layout(spec, which).dense; });
  return any;
}

void expect_exact(const std::string& what, const AttentionSpec& spec, unsigned seed,
                  DType dtype = DType::f32) {
  const Inputs in = random_inputs(spec, seed, dtype);
  for_each(spec, [&](DocumentHead which) {
    const auto truth = reference_attention_probabilities<double>(spec, in.query, in.key, which);
    for (const int threads : {1, 2}) {
      const double difference = max_difference(probabilities(spec, in, which, threads), truth);
      EXPECT_TRUE(difference <= 1e-6)
          << what << ", document " << which.document << ", head " << which.head << ", " << threads
          << " threads: off by " << difference;
    }
  });
}

TEST(Probabilities, LengthsAndReaches) {
  unsigned seed = 1;
  for (const Index n : {1, 2, 17, 63, 64, 65, 130, 300}) {
    for (const Index reach :
         {Index{0}, Index{1}, Index{7}, Index{64}, Index{500}, kUnlimitedReach}) {
      for (const bool causal : {false, true}) {
        AttentionSpec spec = self_attention(n, 2, 16, symmetric(reach));
        spec.causal = causal;
        expect_exact(fmt::format("n {}, reach {}, causal {}", n, reach, causal), spec, ++seed);
      }
    }
  }
}

TEST(Probabilities, OfALongDocumentSumToOne) {
  AttentionSpec spec = self_attention(20000, 1, 16, symmetric(kUnlimitedReach));
  AttentionRows& rows = edit(spec);
  rows.self_attention = false;
  rows.documents[0].query_count = 3;
  Inputs in = random_inputs(spec, 3);
  const std::vector<float> found = probabilities(spec, in, {});
  for (const float* row = found.data(); row != found.data() + found.size(); row += 20000) {
    const double sum = std::accumulate(row, row + 20000, 0.0);
    EXPECT_TRUE(std::abs(sum - 1) <= 5e-7) << sum - 1;
  }
}

TEST(Probabilities, RandomSpecs) {
  std::mt19937 generator(11);
  int bands = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    AttentionSpec spec = random_spec(generator);
    if (has_band_form(spec)) {
      spec.global_queries = GlobalQueries::windowed;
      ++bands;
    }
    expect_exact(fmt::format("spec {}", seed), spec, seed,
                 seed % 5 == 4 ? DType::bf16 : DType::f32);
  }
  EXPECT_GE(bands, 50);
}

TEST(Probabilities, QueriesElsewhereThanTheKeys) {
  for (const Index offset : {-30, -3, 0, 5, 90, 200}) {
    for (const Index dilation : {1, 3}) {
      AttentionSpec spec = self_attention(0, 2, 8, {6, 2, dilation});
      set_documents(spec, {{.query_begin = 0,
                            .query_count = 70,
                            .key_begin = 4,
                            .key_count = 100,
                            .query_offset = offset}});
      edit(spec).global_keys = {9, 50};
      expect_exact(fmt::format("offset {}, dilation {}", offset, dilation), spec, 7);
    }
  }
}

TEST(Probabilities, WeighValuesAsTheBackendsDo) {
  AttentionSpec spec = ragged({90, 1, 200}, 2, 16, symmetric(12, 2));
  edit(spec).global_keys = {0, 40, 91, 150, 151};
  mask(spec, {3, 4, 100, 151});
  const Inputs in = random_inputs(spec, 5);
  const Result expected = run(AttentionBackend::fused, spec, in);
  const std::vector<float> values = in.value.to_floats();
  std::vector<double> out(expected.out.size());
  for_each(spec, [&](DocumentHead which) {
    const auto& document = spec.rows->documents[which.document];
    const ProbabilityLayout layout = probability_layout(spec, which);
    const auto p = probabilities(spec, in, which);
    std::vector<Index> globals;
    for (const Index key : spec.rows->global_keys) {
      const Index j = key - document.key_begin;
      if (j >= 0 && j < document.key_count) globals.push_back(j);
    }
    for (Index i = 0; i < layout.rows; ++i) {
      for (Index c = 0; c < layout.columns; ++c) {
        const float weight = p[i * layout.columns + c];
        const Index j = c < layout.globals ? globals[c] : i + (c - layout.globals - 12) * 2;
        if (weight == 0) continue;
        ASSERT_TRUE(j >= 0 && j < document.key_count);
        const float* value = &values[(which.head * 291 + document.key_begin + j) * 16];
        double* row = &out[(document.query_begin + i) * 32 + which.head * 16];
        for (Index x = 0; x < 16; ++x) row[x] += double{weight} * value[x];
      }
    }
  });
  EXPECT_TRUE(max_difference(out, expected.out) <= 3e-6);
}

TEST(Probabilities, Refused) {
  AttentionSpec spec = self_attention(8, 1, 4, symmetric(2));
  edit(spec).global_keys = {3};
  const Inputs in = random_inputs(spec, 1);
  std::vector<float> out(8 * 5);
  EXPECT_THROW(attention_probabilities(spec, {in.query, in.key}, {0, 0}, out, 1), Error);
  out.resize(8 * 6);
  EXPECT_NO_THROW(attention_probabilities(spec, {in.query, in.key}, {0, 0}, out, 1));
  spec.global_queries = GlobalQueries::see_everything;
  EXPECT_THROW(attention_probabilities(spec, {in.query, in.key}, {0, 0}, out, 1), Error);
}

}  // namespace
}  // namespace longformer::kernels::attention_probabilities_test
