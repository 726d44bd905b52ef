// Relative positions as in Transformer-XL against the original's numbers, and what attention in
// training refuses.
//
// Reruns: tsan isa
#include <gtest/gtest.h>

#include <algorithm>

#include "attention_training_testing.h"

namespace longformer::kernels::attention_relative_test {
namespace {

// ---- Transformer-XL ----

/// det(shape, s, c) of docs/spec/README.md#det.
Tensor det(const Shape& shape, int s, double c) {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(c * std::sin(1 + 0.7 * static_cast<double>(i) + 1.3 * s));
  }
  return Tensor::from(values, shape);
}

/// x·Wᵀ in double.
std::vector<double> product(const std::vector<double>& x, const Tensor& weight) {
  const Index inputs = weight.dimension(1);
  const Index outputs = weight.dimension(0);
  const Index rows = static_cast<Index>(x.size()) / inputs;
  std::vector<double> y(static_cast<std::size_t>(rows * outputs));
  for (Index row = 0; row < rows; ++row) {
    for (Index o = 0; o < outputs; ++o) {
      for (Index i = 0; i < inputs; ++i) {
        y[row * outputs + o] += x[row * inputs + i] * weight.data<float>()[o * inputs + i];
      }
    }
  }
  return y;
}

/// The block of docs/spec/golden.md#m2: two heads of 4, four queries after a memory of three
/// tokens.
struct TransformerXl {
  static constexpr Index kHeads = 2, kHead = 4, kWidth = 8, kQueries = 4, kKeys = 7;
  AttentionSpec spec =
      with_positions(with_documents(causal(self_attention(0, kHeads, kHead, previous(kKeys - 1))),
                                    {{0, kQueries, 0, kKeys, kKeys - kQueries}}));
  Tensor hidden = det({kQueries, kWidth}, 6, 1.0);
  Tensor query, key, value, relative_keys;
  Tensor content_bias = det({kHeads, kHead}, 4, 0.3);
  Tensor position_bias = det({kHeads, kHead}, 5, 0.3);

  TransformerXl() {
    std::vector<double> context;
    for (const Tensor& part : {det({kKeys - kQueries, kWidth}, 7, 1.0), hidden}) {
      for (const float x : part.to_floats()) context.push_back(x);
    }
    const std::vector<double> qkv = product(context, det({3 * kWidth, kWidth}, 1, 0.5));
    query = heads_of(qkv, 3 * kWidth, 0, kKeys - kQueries);
    key = heads_of(qkv, 3 * kWidth, kWidth, 0);
    value = heads_of(qkv, 3 * kWidth, 2 * kWidth, 0);
    std::vector<double> sinusoids(kKeys * kWidth);
    for (Index distance = 0; distance < kKeys; ++distance) {
      for (Index t = 0; t < kWidth / 2; ++t) {
        const double angle = static_cast<double>(distance) *
                             std::pow(10000.0, -2.0 * static_cast<double>(t) / kWidth);
        sinusoids[distance * kWidth + t] = std::sin(angle);
        sinusoids[distance * kWidth + kWidth / 2 + t] = std::cos(angle);
      }
    }
    relative_keys = heads_of(product(sinusoids, det({kWidth, kWidth}, 3, 0.5)), kWidth, 0, 0);
  }

  /// Columns `first` and following of the rows from `row` on, head-major.
  static Tensor heads_of(const std::vector<double>& rows, Index columns, Index first, Index row) {
    const Index count = static_cast<Index>(rows.size()) / columns - row;
    Tensor heads({kHeads, count, kHead}, DType::f32);
    for (Index head = 0; head < kHeads; ++head) {
      for (Index i = 0; i < count; ++i) {
        for (Index c = 0; c < kHead; ++c) {
          heads.data<float>()[(head * count + i) * kHead + c] =
              static_cast<float>(rows[(row + i) * columns + first + head * kHead + c]);
        }
      }
    }
    return heads;
  }

  /// LN(h + attention · W_oᵀ).
  std::vector<double> output(const std::vector<double>& attended) const {
    std::vector<double> x = product(attended, det({kWidth, kWidth}, 2, 0.5));
    for (Index row = 0; row < kQueries; ++row) {
      double mean = 0, square = 0;
      double* line = &x[row * kWidth];
      for (Index c = 0; c < kWidth; ++c) {
        line[c] += hidden.data<float>()[row * kWidth + c];
        mean += line[c] / kWidth;
      }
      for (Index c = 0; c < kWidth; ++c) square += (line[c] - mean) * (line[c] - mean) / kWidth;
      for (Index c = 0; c < kWidth; ++c) line[c] = (line[c] - mean) / std::sqrt(square + 1e-5);
    }
    return x;
  }
};

/// docs/spec/golden.md#m2: made by the original code.
TEST(TransformerXl, EqualsTheOriginal) {
  const std::vector<double> expected = {
      -1.413944, -1.370080, -0.761566, 0.143928,  0.942541,  1.274291, 0.985364, 0.199466,
      -0.732780, -1.238512, -1.187466, -0.595405, 0.278595,  1.045297, 1.358573, 1.071698,
      0.158673,  -0.723085, -1.229846, -1.128924, -0.457013, 0.492233, 1.296275, 1.591687,
      0.682109,  -0.303929, -1.075079, -1.285691, -0.835647, 0.082077, 1.063782, 1.672378};
  const TransformerXl block;
  const RelativePositions relative = {block.content_bias, block.position_bias, block.relative_keys};
  const auto truth = reference_attention<double>(block.spec, block.query, block.key, block.value,
                                                 {.relative = &relative});
  EXPECT_TRUE(max_difference(block.output(truth.out), expected) <= 2e-6);
  Tensor out({TransformerXl::kQueries, TransformerXl::kWidth}, DType::f32);
  attention(AttentionBackend::fused, block.spec,
            {.query = block.query,
             .key = block.key,
             .value = block.value,
             .out = out,
             .relative = &relative});
  const std::vector<float> attended = out.to_floats();
  EXPECT_TRUE(max_difference(block.output({attended.begin(), attended.end()}), expected) <= 2e-6);
}

/// One segment, and the same in two calls of which the second has the first as its memory.
TEST(TransformerXl, SegmentsWithMemoryEqualOneSegment) {
  const Index n = 150, cut = 64;
  const AttentionSpec whole = with_positions(
      with_heads(self_attention(n, 2, 16, previous(40)), {previous(40), previous(12, 3)}));
  const TrainingInputs x(whole, 31, DType::f32);
  const RelativePositions relative = x.relative();
  Tensor expected({n, 32}, DType::f32);
  attention(AttentionBackend::fused, whole,
            {.query = x.in.query,
             .key = x.in.key,
             .value = x.in.value,
             .out = expected,
             .relative = &relative});
  const auto rows_of = [](const Tensor& tensor, Index first, Index count) {
    Tensor part({2, count, 16}, DType::f32);
    for (Index head = 0; head < 2; ++head) {
      std::copy_n(tensor.data<float>() + (head * n + first) * 16, count * 16,
                  part.data<float>() + head * count * 16);
    }
    return part;
  };
  std::vector<float> found;
  // The second segment sees 36 steps of dilation 3 before it, or a memory of at least that.
  for (const auto& [begin, end, memory] :
       {std::array{Index{0}, cut, Index{0}}, std::array{cut, n, Index{45}}}) {
    const Index first_key = begin - memory;
    const AttentionSpec spec =
        with_documents(whole, {{0, end - begin, 0, end - first_key, memory}});
    Tensor out({end - begin, 32}, DType::f32);
    attention(AttentionBackend::fused, spec,
              {.query = rows_of(x.in.query, begin, end - begin),
               .key = rows_of(x.in.key, first_key, end - first_key),
               .value = rows_of(x.in.value, first_key, end - first_key),
               .out = out,
               .relative = &relative});
    const std::vector<float> rows = out.to_floats();
    found.insert(found.end(), rows.begin(), rows.end());
  }
  EXPECT_TRUE(max_difference(found, expected.to_floats()) <= 2e-6);
}

// ---- what is refused ----

TEST(Refused, SpecsOfRelativePositionsAndDropout) {
  const auto error = [](const AttentionSpec& spec) { return error_of([&] { check(spec); }); };
  EXPECT_EQ(error(with_positions(self_attention(9, 2, 4, symmetric(2)))),
            "attention: head 0: expected a reach of 0 to the right with relative positions, found "
            "2");
  EXPECT_EQ(error(with_globals(with_positions(self_attention(9, 2, 4, previous(2))), {0, 4})),
            "attention: expected no global keys with relative positions, found 2");
  EXPECT_EQ(error(with_dropout(self_attention(9, 2, 4, symmetric(2)), 1.0f)),
            "attention: expected a dropout rate of at least 0 and below 1, found 1");
}

TEST(Refused, WhyNot) {
  const AttentionSpec dropout = with_dropout(self_attention(9, 2, 4, symmetric(2)));
  const AttentionSpec positions = with_positions(self_attention(9, 2, 4, previous(2)));
  for (const AttentionBackend backend : kBackends) {
    const bool fused = backend == AttentionBackend::fused;
    EXPECT_EQ(why_not(backend, dropout).value_or("it can"),
              fused ? "it can" : "dropout of probabilities is left to the fused backend");
    EXPECT_EQ(why_not(backend, positions).value_or("it can"),
              fused ? "it can" : "relative positions are left to the fused backend and to OpenCL");
  }
}

TEST(Refused, ByOpenCl) {
  const auto reason = [](const AttentionSpec& spec) {
    return why_not(AttentionBackend::opencl, spec).value_or("it can");
  };
  AttentionSpec spec = with_positions(self_attention(9, 2, 4, previous(2)));
  EXPECT_EQ(reason(spec), "it can");
  edit(spec).places = RowPlaces{};
  EXPECT_EQ(reason(spec), "relative positions of rows with places are left to the fused backend");
  spec = self_attention(9, 2, 4, symmetric(2));
  spec.distance_keys = true;
  EXPECT_EQ(reason(spec), "keys of distances are left to the fused backend");
  spec = with_dropout(self_attention(9, 2, 4, symmetric(2)));
  EXPECT_EQ(reason(spec), "dropout of probabilities is left to the fused backend");
}

TEST(Refused, TensorsThatDoNotFit) {
  const AttentionSpec spec = with_positions(self_attention(9, 2, 4, previous(5)));
  const auto error = [&](const std::function<void(TrainingInputs&)>& spoil, bool given = true) {
    TrainingInputs x(spec, 1, DType::f32);
    spoil(x);
    AttentionSpec asked = spec;
    asked.relative_positions = given;
    return error_of([&] { run_backward(asked, x, 1); });
  };
  EXPECT_EQ(error([](TrainingInputs&) {}), "no error");
  EXPECT_EQ(error([](TrainingInputs&) {}, false), "no error");
  EXPECT_EQ(error([](TrainingInputs& x) {
              x.positions.keys = random_tensor({2, 5, 4}, 1);
            }),
            "attention: expected relative keys for 6 distances, found 5");
  EXPECT_EQ(error([](TrainingInputs& x) {
              x.positions.content_bias = random_tensor({2, 5}, 1);
            }),
            "attention: expected a content bias [2, 4], found [2, 5]");
  EXPECT_EQ(error([](TrainingInputs& x) { x.positions.keys = x.positions.keys.to(DType::bf16); }),
            "attention: expected relative keys in fp32, found bf16");
  EXPECT_EQ(error([](TrainingInputs& x) {
              x.out_gradient = random_tensor({9, 7}, 1);
            }),
            "attention: expected a gradient of the output [9, 8] in fp32, found [9, 7] in fp32");
  EXPECT_EQ(error([](TrainingInputs& x) {
              x.logsumexp = random_tensor({2, 8}, 1);
            }),
            "attention: expected a logsumexp [2, 9], found [2, 8]");
}

}  // namespace
}  // namespace longformer::kernels::attention_relative_test
