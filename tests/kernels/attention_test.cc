// Every backend of band attention against the double-precision scalar reference, and what is
// refused.
//
// Reruns: tsan isa
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <string>

#include "attention_testing.h"
#include "core/error.h"
#include "kernels/reference.h"

namespace longformer::kernels::attention_test {
namespace {

struct Tolerance {
  double out;
  double logsumexp;
};
// Largest differences seen: fp32 1.7e-6; bf16 9e-3, of values of up to 4 in size. The fused backend
// rounds probabilities to bf16 as well, which moves its logsumexp by 3e-3.
constexpr Tolerance kFp32 = {3e-6, 3e-6};
constexpr Tolerance kBf16 = {1.2e-2, 5e-3};

void expect_all_backends_exact(const std::string& what, const AttentionSpec& spec, unsigned seed,
                               DType dtype = DType::f32) {
  const Inputs in = random_inputs(spec, seed, dtype);
  const auto truth = reference_attention<double>(spec, in.query, in.key, in.value);
  const Tolerance tolerance = dtype == DType::f32 ? kFp32 : kBf16;
  for (const AttentionBackend backend : every_backend()) {
    if (why_not(backend, spec)) {
      EXPECT_EQ(backend, AttentionBackend::chunks) << what;
      continue;
    }
    for (const int threads : {1, 2}) {
      if (backend == AttentionBackend::opencl && threads > 1) continue;
      const Result result = run(backend, spec, in, threads);
      const double out = max_difference(result.out, truth.out);
      const double logsumexp = max_difference(result.logsumexp, truth.logsumexp);
      EXPECT_TRUE(out <= tolerance.out)
          << what << ", " << name_of(backend) << ", " << threads << " threads: out off by " << out;
      EXPECT_TRUE(logsumexp <= tolerance.logsumexp)
          << what << ", " << name_of(backend) << ", " << threads << " threads: logsumexp off by "
          << logsumexp;
    }
  }
}

TEST(Comparison, NanFails) {
  const std::vector<float> good = {1, 2};
  const std::vector<float> bad = {1, std::nanf("")};
  EXPECT_FALSE(max_difference(good, bad) <= 1e9);
  EXPECT_FALSE(max_difference(bad, good) <= 1e9);
  EXPECT_FALSE(max_difference(good, std::vector<float>{1}) <= 1e9);
  EXPECT_TRUE(max_difference(good, good) <= 0);
}

// ---- agreement over tables of sizes ----

TEST(Backends, LengthsAndReaches) {
  unsigned seed = 1;
  for (const Index n : {1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 191, 255, 300}) {
    for (const Index reach : {Index{0}, Index{1}, Index{7}, Index{64}, kUnlimitedReach}) {
      for (const bool causal : {false, true}) {
        AttentionSpec spec = self_attention(n, 2, 16, symmetric(reach));
        spec.causal = causal;
        expect_all_backends_exact(fmt::format("n {}, reach {}, causal {}", n, reach, causal), spec,
                                  ++seed);
      }
    }
  }
}

TEST(Backends, HeadSizes) {
  for (const Index head_size : {1, 3, 8, 16, 20, 32, 64, 80, 96, 128}) {
    for (const Index n : {5, 77, 150}) {
      AttentionSpec spec = self_attention(n, 3, head_size, symmetric(9));
      edit(spec).global_keys = {0, n / 2};
      spec.global_queries = GlobalQueries::see_everything;
      expect_all_backends_exact(fmt::format("head size {}, n {}", head_size, n), spec,
                                static_cast<unsigned>(head_size + n));
    }
  }
}

TEST(Backends, AsymmetricAndDilatedHeadsMixed) {
  for (const Index n : {1, 7, 40, 129, 260}) {
    for (const bool causal : {false, true}) {
      AttentionSpec spec = self_attention(n, 1, 24, symmetric(6));
      spec.heads = {symmetric(6),
                    symmetric(6, 2),
                    previous(9, 3),
                    {0, 12, 1},
                    {4, 1, 5},
                    symmetric(0, 7),
                    symmetric(kUnlimitedReach, 4),
                    previous(kUnlimitedReach),
                    symmetric(3, 400)};
      spec.causal = causal;
      const std::string what = fmt::format("mixed heads, n {}, causal {}", n, causal);
      expect_all_backends_exact(what, spec, static_cast<unsigned>(n));
      edit(spec).global_keys = n > 6 ? std::vector<Index>{2, 5, 6} : std::vector<Index>{0};
      expect_all_backends_exact(what + ", globals", spec, static_cast<unsigned>(n));
      spec.global_queries = GlobalQueries::see_everything;
      expect_all_backends_exact(what + ", globals see everything", spec, static_cast<unsigned>(n));
    }
  }
}

TEST(Backends, GlobalSets) {
  const Index n = 141;
  std::vector<Index> many;
  for (Index i = 0; i < n; i += 3) many.push_back(i);
  const std::vector<std::vector<Index>> sets = {{},   {0},        {n - 1}, {70}, {0, 1, 2, 64, 140},
                                                many, all_rows(n)};
  unsigned seed = 50;
  for (const auto& globals : sets) {
    for (const auto queries : {GlobalQueries::windowed, GlobalQueries::see_everything}) {
      for (const bool causal : {false, true}) {
        AttentionSpec spec = self_attention(n, 2, 32, symmetric(8));
        edit(spec).global_keys = globals;
        spec.global_queries = queries;
        spec.causal = causal;
        const std::string what =
            fmt::format("{} globals, see everything {}, causal {}", globals.size(),
                        queries == GlobalQueries::see_everything, causal);
        expect_all_backends_exact(what, spec, ++seed);
        mask(spec,
             {0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 70, 99, 140});
        expect_all_backends_exact(what + ", holes", spec, ++seed);
        mask(spec, all_rows(n));
        expect_all_backends_exact(what + ", all masked", spec, ++seed);
      }
    }
  }
}

TEST(Backends, RaggedDocuments) {
  for (const Index reach : {Index{2}, Index{20}, kUnlimitedReach}) {
    for (const bool causal : {false, true}) {
      AttentionSpec spec = ragged({3, 0, 64, 1, 130, 17, 0}, 2, 16, symmetric(reach));
      spec.causal = causal;
      spec.heads[1].dilation = 3;
      const std::string what = fmt::format("ragged, reach {}, causal {}", reach, causal);
      expect_all_backends_exact(what, spec, 71);
      spec.heads[1].dilation = 1;
      expect_all_backends_exact(what + ", undilated", spec, 72);
      edit(spec).global_keys = {0, 5, 66, 67, 68, 197, 214};
      expect_all_backends_exact(what + ", globals", spec, 73);
      spec.global_queries = GlobalQueries::see_everything;
      mask(spec, {1, 66, 67, 100, 101, 102, 200, 201});
      expect_all_backends_exact(what + ", everything", spec, 74);
    }
  }
}

TEST(Backends, CrossAttentionWithOffsets) {
  unsigned seed = 90;
  for (const Index nq : {1, 5, 70}) {
    for (const Index nk : {1, 33, 150}) {
      for (const Index offset : {-9, 0, 4, 80, 149, 400}) {
        for (const bool causal : {false, true}) {
          AttentionSpec spec = self_attention(0, 2, 16, symmetric(11));
          spec.heads[1] = previous(30, 2);
          set_documents(spec, {{0, nq, 0, nk, offset}});
          spec.causal = causal;
          const std::string what =
              fmt::format("{} queries at {}, {} keys, causal {}", nq, offset, nk, causal);
          expect_all_backends_exact(what, spec, ++seed);
          edit(spec).global_keys = nk > 8 ? std::vector<Index>{0, 8} : std::vector<Index>{0};
          spec.global_queries = GlobalQueries::see_everything;
          if (nk > 8) mask(spec, {1, 2, 3, 7, 20});
          expect_all_backends_exact(what + ", globals", spec, ++seed);
        }
      }
    }
  }
}

TEST(Backends, SeveralCrossDocumentsMayShareKeys) {
  AttentionSpec spec = self_attention(0, 2, 8, symmetric(kUnlimitedReach));
  set_documents(spec, {{0, 3, 10, 40, 0}, {3, 9, 10, 40, 17}, {12, 50, 0, 64, 3}});
  edit(spec).global_keys = {12, 49};
  expect_all_backends_exact("shared keys", spec, 5);
  for (HeadPattern& head : spec.heads) head = symmetric(5);
  expect_all_backends_exact("shared keys, window", spec, 6);
}

/// Several tasks and chunks of keys of the fused backend, many blocks of the others.
TEST(Backends, LongDocuments) {
  const Index n = 1100;
  unsigned seed = 200;
  for (const HeadPattern pattern :
       {symmetric(kUnlimitedReach), symmetric(300), symmetric(61), previous(500, 2),
        HeadPattern{.reach_left = 1, .reach_right = 1, .block = 64},
        HeadPattern{.reach_left = 2, .block = 100}}) {
    AttentionSpec spec = self_attention(n, 1, 128, pattern);
    const std::string what = fmt::format("long, reach {}", pattern.reach_left);
    expect_all_backends_exact(what, spec, ++seed);
    for (Index j = 0; j < n; j += 3) edit(spec).global_keys.push_back(j);
    mask(spec, {0, 1, 2, 640, 641, 642, 643, 1098, 1099});
    spec.causal = pattern.dilation == 2;
    spec.global_queries = GlobalQueries::see_everything;
    expect_all_backends_exact(what + ", many globals", spec, ++seed);
    expect_all_backends_exact(what + ", many globals, bf16", spec, ++seed, DType::bf16);
  }
  expect_all_backends_exact("long ragged",
                            ragged({700, 3, 0, 1, 900, 511, 513}, 2, 16, symmetric(90)), ++seed);
}

TEST(Backends, RandomSpecs) {
  std::mt19937 generator(2004);
  for (unsigned trial = 0; trial < 150; ++trial) {
    expect_all_backends_exact(fmt::format("random spec {}", trial), random_spec(generator), trial);
    if (HasFailure()) return;
  }
}

TEST(Backends, Bf16) {
  std::mt19937 generator(5150);
  for (unsigned trial = 0; trial < 60; ++trial) {
    expect_all_backends_exact(fmt::format("random bf16 spec {}", trial), random_spec(generator),
                              trial, DType::bf16);
    if (HasFailure()) return;
  }
}

/// Scores of several hundred: exp overflows unless the maximum is subtracted.
TEST(Backends, LargeScores) {
  AttentionSpec spec = self_attention(200, 2, 16, symmetric(12));
  edit(spec).global_keys = {3, 150};
  Inputs in = random_inputs(spec, 8);
  for (Index i = 0; i < in.query.size(); ++i) in.query.data<float>()[i] *= 300;
  const auto truth = reference_attention<double>(spec, in.query, in.key, in.value);
  for (const AttentionBackend backend : every_backend()) {
    const Result result = run(backend, spec, in);
    // One rounding of a score of 1,000 is 6e-5, and moves probabilities as much.
    EXPECT_TRUE(max_difference(result.out, truth.out) <= 1e-3) << name_of(backend);
    EXPECT_TRUE(max_difference(result.logsumexp, truth.logsumexp) <= 1e-3) << name_of(backend);
  }
}

/// Thousands of alike terms: a single running sum would round all of them the same way, and be off
/// by 1e-4 (seen as a hidden state that missed transformers by 5e-4).
TEST(Fused, ManyAlikeKeysDoNotAddUpTheirRounding) {
  const Index keys = 16384;
  AttentionSpec spec = self_attention(0, 1, 16, symmetric(kUnlimitedReach));
  for (const Index queries : {3, 70}) {
    set_documents(spec,
                  {{.query_begin = 0, .query_count = queries, .key_begin = 0, .key_count = keys}});
    Inputs in = random_inputs(spec, 12);
    std::fill_n(in.query.data<float>(), in.query.size(), 0.31f);
    // The first key sets the maximum, so that the others weigh a number that is not a power of two.
    std::fill_n(in.key.data<float>(), in.key.size(), 0.3f);
    std::fill_n(in.key.data<float>(), 16, 1.7f);
    std::fill_n(in.value.data<float>(), in.value.size(), 1.1f);
    const auto truth = reference_attention<double>(spec, in.query, in.key, in.value);
    const Result result = run(AttentionBackend::fused, spec, in);
    EXPECT_LE(max_difference(result.out, truth.out), 5e-6) << queries << " queries";
    EXPECT_LE(max_difference(result.logsumexp, truth.logsumexp), 5e-6) << queries << " queries";
  }
}

/// Contents of masked rows are undefined and must not be touched, not even multiplied by zero.
TEST(Backends, MaskedRowsMayHoldNan) {
  AttentionSpec spec = self_attention(150, 2, 16, symmetric(12));
  edit(spec).global_keys = {0, 60};
  spec.global_queries = GlobalQueries::see_everything;
  mask(spec, {5, 70, 71, 149});
  const Inputs clean = random_inputs(spec, 21);
  Inputs dirty = random_inputs(spec, 21);
  for (Index head = 0; head < 2; ++head) {
    for (const Index row : {5, 70, 71, 149}) {
      for (Index c = 0; c < 16; ++c) {
        for (Tensor* tensor : {&dirty.query, &dirty.key, &dirty.value}) {
          tensor->data<float>()[(head * 150 + row) * 16 + c] = std::nanf("");
        }
      }
    }
  }
  for (const AttentionBackend backend : every_backend()) {
    const Result expected = run(backend, spec, clean);
    const Result result = run(backend, spec, dirty);
    EXPECT_TRUE(max_difference(result.out, expected.out) <= 1e-6) << name_of(backend);
  }
}

/// Rows of the result that have a number that is not finite.
std::vector<Index> broken_rows(const Result& result, Index rows) {
  const Index width = static_cast<Index>(result.out.size()) / rows;
  std::vector<Index> broken;
  for (Index row = 0; row < rows; ++row) {
    const auto first = result.out.begin() + row * width;
    const bool finite = std::all_of(first, first + width, [](float x) { return std::isfinite(x); });
    if (!finite) broken.push_back(row);
  }
  return broken;
}

/// A value that is not finite comes out in the rows that see it, does not vanish in a maximum, and
/// leaves other rows unchanged.
TEST(Backends, WhatIsNotFiniteShowsWhereItIsSeen) {
  const AttentionSpec spec = self_attention(300, 1, 16, symmetric(4));
  const std::vector<Index> seen_by = {46, 47, 48, 49, 50, 51, 52, 53, 54};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const float wrong :
         {std::nanf(""), std::bit_cast<float>(0x7fffffffu), std::bit_cast<float>(0xffffffffu),
          std::bit_cast<float>(0x7fc00001u), INFINITY}) {
      for (const int which : {0, 1, 2}) {
        // Not so for keys: an infinite score has no softmax in some rows, and weight 0 in others.
        if (which == 1 && std::isinf(wrong)) continue;
        Inputs wide = random_inputs(spec, 3);
        Tensor& tensor = which == 0 ? wide.query : which == 1 ? wide.key : wide.value;
        tensor.data<float>()[50 * 16] = wrong;
        const Inputs in = {wide.query.to(dtype), wide.key.to(dtype), wide.value.to(dtype)};
        for (const AttentionBackend backend : every_backend()) {
          // Those that multiply whole blocks of scores with values spread it over the block.
          const bool in_blocks =
              backend == AttentionBackend::chunks || backend == AttentionBackend::full;
          if (which == 2 && in_blocks) continue;
          const Result result = run(backend, spec, in);
          EXPECT_EQ(broken_rows(result, 300), which == 0 ? std::vector<Index>{50} : seen_by)
              << name_of(backend) << " " << name_of(dtype) << ", " << wrong << " in input "
              << which;
        }
      }
    }
  }
}

/// However many keys a row sees: a maximum over lanes may lose NaN to those without a key.
TEST(Backends, NaNInEveryKeyShows) {
  for (const Index reach : {0, 1, 2, 5, 8, 20}) {
    const AttentionSpec spec = self_attention(40, 1, 16, symmetric(reach));
    const Index rows = 40;
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Inputs wide = random_inputs(spec, 3);
      const std::vector<float> bad(static_cast<std::size_t>(rows * 16), std::nanf(""));
      const Inputs in = {wide.query.to(dtype), Tensor::from(bad, {1, rows, 16}).to(dtype),
                         wide.value.to(dtype)};
      for (const AttentionBackend backend : every_backend()) {
        EXPECT_EQ(std::ssize(broken_rows(run(backend, spec, in), rows)), rows)
            << name_of(backend) << " " << name_of(dtype) << " " << reach;
      }
    }
  }
}

TEST(Backends, SameBitsEveryTime) {
  AttentionSpec spec = self_attention(300, 3, 32, symmetric(20));
  edit(spec).global_keys = {0, 100};
  const Inputs in = random_inputs(spec, 4);
  for (const AttentionBackend backend : every_backend()) {
    EXPECT_EQ(run(backend, spec, in).out, run(backend, spec, in).out) << name_of(backend);
  }
}

/// A decoder of five tokens on an encoder of as many, of which two are masked.
AttentionSpec cross_attention_of_equal_lengths() {
  AttentionSpec spec = self_attention(0, 2, 8, symmetric(kUnlimitedReach));
  set_documents(spec, {{0, 5, 0, 5, 0}});
  edit(spec).key_mask = {1, 0, 1, 1, 0};
  return spec;
}

/// Masked keys are not there; the queries beside them are other rows and see the rest.
TEST(CrossAttention, MaskedKeysDoNotMaskQueriesOfTheSameNumber) {
  const AttentionSpec spec = cross_attention_of_equal_lengths();
  const Inputs in = random_inputs(spec, 5);
  AttentionSpec unmasked = spec;
  set_documents(unmasked, {{0, 5, 0, 3, 0}});
  edit(unmasked).key_mask.clear();
  const auto kept = [](const Tensor& all) {
    std::vector<float> rows;
    const std::vector<float> values = all.to_floats();
    for (Index head = 0; head < 2; ++head) {
      for (const Index row : {0, 2, 3}) {
        const auto first = values.begin() + (head * 5 + row) * 8;
        rows.insert(rows.end(), first, first + 8);
      }
    }
    return Tensor::from(rows, {2, 3, 8});
  };
  const Inputs fewer = {in.query, kept(in.key), kept(in.value)};
  const auto expected = reference_attention<double>(unmasked, fewer.query, fewer.key, fewer.value);
  const auto reference = reference_attention<double>(spec, in.query, in.key, in.value);
  EXPECT_TRUE(max_difference(reference.out, expected.out) <= 1e-12);
  EXPECT_TRUE(max_difference(reference.logsumexp, expected.logsumexp) <= 1e-12);
  for (const AttentionBackend backend : every_backend()) {
    const Result found = run(backend, spec, in);
    EXPECT_TRUE(max_difference(found.out, expected.out) <= 1e-5) << name_of(backend);
    EXPECT_TRUE(max_difference(found.logsumexp, expected.logsumexp) <= 1e-5) << name_of(backend);
  }
}

// ---- what is refused ----

std::string check_error(const std::function<void(AttentionSpec&)>& spoil) {
  AttentionSpec spec = self_attention(10, 2, 4, symmetric(2));
  check(spec);
  spoil(spec);
  return error_of([&] { check(spec); });
}

TEST(Check, NamesWhatIsWrong) {
  using Spec = AttentionSpec;
  EXPECT_EQ(check_error([](Spec& s) { s.head_size = 0; }),
            "attention: expected a head size of at least 1, found 0");
  EXPECT_EQ(check_error([](Spec& s) { s.heads.clear(); }),
            "attention: expected at least one head, found none");
  EXPECT_EQ(check_error([](Spec& s) { s.heads[1].reach_left = -3; }),
            "attention: head 1: expected reaches of at least 0, found -3 to the left and 2 to the "
            "right");
  EXPECT_EQ(check_error([](Spec& s) { s.heads[0].dilation = 0; }),
            "attention: head 0: expected a dilation of at least 1, found 0");
  EXPECT_EQ(
      check_error([](Spec& s) { edit(s).documents[0].query_count = -1; }),
      "attention: document 0: expected counts and key rows of at least 0, found -1 queries and "
      "10 keys from row 0 on");
  EXPECT_EQ(check_error([](Spec& s) {
              edit(s).documents.push_back({7, 3, 10, 3, 0});
            }),
            "attention: document 1: expected its queries from row 10 on, found row 7");
  EXPECT_EQ(check_error([](Spec& s) { edit(s).key_mask.assign(9, 1); }),
            "attention: expected a mask of 10 keys, found 9");
  EXPECT_EQ(check_error([](Spec& s) {
              edit(s).global_keys = {3, 10};
            }),
            "attention: expected global keys in 0 … 9, found 10");
  EXPECT_EQ(check_error([](Spec& s) { edit(s).global_keys = {-1}; }),
            "attention: expected global keys in 0 … 9, found -1");
  EXPECT_EQ(check_error([](Spec& s) {
              edit(s).global_keys = {4, 4};
            }),
            "attention: expected ascending global keys, found 4 after 4");
  EXPECT_EQ(check_error([](Spec& s) {
              mask(s, {4});
              edit(s).global_keys = {4};
            }),
            "attention: expected global keys that are not masked, found masked key 4");
  EXPECT_EQ(check_error([](Spec& s) { edit(s).documents[0].key_count = 12; }),
            "attention: document 0: expected equal ranges of queries and keys in self-attention, "
            "found 10 queries from row 0 on with offset 0 and 12 keys from row 0 on");
  EXPECT_EQ(check_error([](Spec& s) { s.rows = nullptr; }), "attention: expected rows, found none");
}

TEST(Check, ShapesAndTypes) {
  const AttentionSpec spec = self_attention(10, 2, 4, symmetric(2));
  for (const AttentionBackend backend : every_backend()) {
    Inputs in = random_inputs(spec, 1);
    Tensor out({10, 8}, DType::f32);
    Tensor logsumexp({2, 10}, DType::f32);
    const auto error = [&](Tensor& target, Tensor* sums) {
      return error_of([&] {
        attention(backend, spec, {in.query, in.key, in.value, target, sums, 1});
      });
    };
    EXPECT_EQ(error(out, &logsumexp), "no error");
    EXPECT_EQ(error(out, nullptr), "no error");
    Tensor narrow({10, 7}, DType::f32);
    EXPECT_EQ(error(narrow, nullptr), "attention: expected an output [10, 8], found [10, 7]");
    Tensor bf16({10, 8}, DType::bf16);
    EXPECT_EQ(error(bf16, nullptr),
              "attention: expected keys, values and output in fp32, found fp32, fp32 and bf16");
    Tensor flat({20}, DType::f32);
    EXPECT_EQ(error(out, &flat), "attention: expected a logsumexp [2, 10], found [20]");
    in.key = random_tensor({2, 11, 4}, 3);
    EXPECT_EQ(error(out, nullptr), "attention: expected keys [2, 10, 4], found [2, 11, 4]");
  }
}

TEST(Check, BackendsByName) {
  for (const AttentionBackend backend : kBackends) {
    EXPECT_EQ(attention_backend(std::string(name_of(backend))), backend);
  }
  EXPECT_EQ(attention_backend("opencl"), AttentionBackend::opencl);
  EXPECT_EQ(error_of([] { attention_backend("dense"); }),
            "attention backend: expected loop, chunks, fused, full or opencl, found \"dense\"");
}

TEST(WhyNot, OnlyChunksRefuses) {
  AttentionSpec hard = self_attention(20, 2, 4, {3, 9, 2});
  hard.causal = true;
  set_documents(hard, {{0, 20, 0, 30, 5}});
  for (const auto backend : {AttentionBackend::loop, AttentionBackend::fused,
                             AttentionBackend::full, AttentionBackend::opencl}) {
    EXPECT_EQ(why_not(backend, hard), std::nullopt) << name_of(backend);
  }
}

TEST(WhyNot, ChunksSaysWhy) {
  const auto reason = [](const AttentionSpec& spec) {
    return why_not(AttentionBackend::chunks, spec).value_or("it can");
  };
  AttentionSpec spec = self_attention(20, 3, 4, symmetric(2));
  EXPECT_EQ(reason(spec), "it can");
  spec.heads[1] = symmetric(5);
  EXPECT_EQ(reason(spec), "it can");
  spec.heads[1].dilation = 2;
  EXPECT_EQ(reason(spec), "overlapping blocks need dilation 1, head 1 has 2");
  spec.heads[1] = {5, 4, 1};
  EXPECT_EQ(reason(spec),
            "overlapping blocks need a symmetric window, head 1 reaches 5 to the left and 4 to the "
            "right");
  spec.heads[1] = symmetric(5);
  edit(spec).documents[0].key_count = 25;
  EXPECT_EQ(
      reason(spec),
      "overlapping blocks need as many queries as keys, from position 0 on; document 0 has 20 "
      "queries at 0 and 25 keys");
  spec = self_attention(20, 3, 4, symmetric(2));
  spec.causal = true;
  EXPECT_EQ(reason(spec), "overlapping blocks cannot be causal");
  const Inputs in = random_inputs(spec, 1);
  EXPECT_EQ(error_of([&] { run(AttentionBackend::chunks, spec, in); }),
            "attention backend chunks: overlapping blocks cannot be causal");
}

}  // namespace
}  // namespace longformer::kernels::attention_test
