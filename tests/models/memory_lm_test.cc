// Language models of all kinds against an independent PyTorch version in double precision
// (tests/fixtures/make_memory_lm.py), and the laws that must hold between them
// (docs/spec/low-rank-and-kernels.md#f7, docs/spec/language-models.md#g3).
//
// Reruns: tsan
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "error_testing.h"
#include "fixtures.h"
#include "memory_lm_testing.h"
#include "models/attention/memory.h"

namespace longformer::models::memory_lm_test {
namespace {

std::string fixture(const std::string& name) {
  return (fixtures_folder() / "memory_lm" / name).string();
}

/// A model of tests/fixtures/make_memory_lm.py, and two streams of three segments.
struct OfPyTorch {
  explicit OfPyTorch(const std::string& name)
      : weights(Weights::trained(Weights::open(fixture(name), {}), {})),
        model(read_language_model(fixture(name) + "/config.json"), weights, DType::f32),
        expected(formats::SafetensorsFile::open(fixture(name) + "/expected.safetensors")),
        ids(text::encode_characters(text::Alphabet::text8,
                                    "the quick brown fox jumps over the lazy dog")) {}

  /// Rows of segments of both streams, from a place of the text on.
  std::vector<std::int32_t> segment(Index number, Index shift, Index count = 1) const {
    std::vector<std::int32_t> rows;
    for (Index s = 0; s < 2; ++s) {
      const auto begin = ids.begin() + s * 18 + number * 6 + shift;
      rows.insert(rows.end(), begin, begin + count * 6);
    }
    return rows;
  }
  Doubles wanted(const std::string& name) const {
    return doubles(expected.tensors().at(name).to_floats());
  }

  Weights weights;
  LanguageModel model;
  formats::SafetensorsFile expected;
  std::vector<std::int32_t> ids;
  MemoryPool memory;
  ops::Context context = {.memory = memory, .threads = 2};
};

/// Those of a third segment behind two that were read, of the last two segments where gradients go
/// from one to the other, or of two whole texts at once.
void expect_all_as_in_pytorch(OfPyTorch& of) {
  const bool has_memory = of.model.config().has_memory();
  const Index unrolled = of.model.config().unroll_segments;
  const Index length = has_memory ? 6 * unrolled : 18;
  State state = of.model.start(DType::f32, 2);
  for (Index number = 0; has_memory && number < 3 - unrolled; ++number) {
    of.model.forward(of.context, segments_of(of.segment(number, 0), 6), {.state = &state});
  }
  State same = state;
  const auto rows = [&](Index shift) {
    if (has_memory) return of.segment(3 - unrolled, shift, unrolled);
    return std::vector<std::int32_t>(of.ids.begin() + shift, of.ids.begin() + shift + 36);
  };
  const Batch batch = segments_of(rows(0), length);
  const Tensor hidden = of.model.forward(of.context, batch, {.state = &same});
  EXPECT_LE(
      difference(doubles(of.model.logits(of.context, hidden).to_floats()), of.wanted("logits")),
      1e-5);
  Tape tape;
  of.context.tape = &tape;
  NamedLosses losses;
  const auto count = static_cast<double>(batch.rows());
  const ops::LossSum loss =
      of.model.loss(of.context, batch, rows(1), {.scale = 1 / count},
                    {.state = has_memory ? &state : nullptr, .losses = &losses});
  EXPECT_LE(difference({loss.sum / count}, of.wanted("loss")), 1e-5);
  double auxiliary = 0;
  for (const auto& [name, value] : losses) auxiliary += doubles(value.to_floats())[0] / 2;
  EXPECT_LE(std::abs(auxiliary - of.wanted("auxiliary")[0]), 1e-5 * (1 + auxiliary));
  tape.backward();
  std::size_t compared = 0;
  for (const auto& [name, value] : of.weights.parameters()) {
    const Doubles wanted = of.wanted("gradient." + name);
    ++compared;
    if (!wants_gradient(value)) {
      EXPECT_TRUE(name.ends_with("features")) << name;
      continue;
    }
    ASSERT_FALSE(value.gradient()->sum.empty()) << name;
    EXPECT_LE(difference(doubles(value.gradient()->sum.to_floats()), wanted), 2e-5) << name;
  }
  EXPECT_EQ(compared + (has_memory ? 4 : 3), of.expected.tensors().size());
}

class MemoryFixture : public testing::TestWithParam<std::string> {};

TEST_P(MemoryFixture, LogitsLossesAndGradientsAreThoseOfPyTorch) {
  OfPyTorch of(GetParam());
  expect_all_as_in_pytorch(of);
}

TEST_P(MemoryFixture, AttentionGoesWhereItDoesInPyTorch) {
  OfPyTorch of(GetParam());
  if (!of.model.config().has_memory()) return;
  // A last segment behind five others, in pieces and whole.
  for (const Index piece : {6, 4}) {
    State state = of.model.start(DType::f32);
    std::vector<AttentionShares> shares(2);
    const std::span<const std::int32_t> ids(of.ids.data(), 36);
    of.model.forward(of.context, segments_of(ids.first(30), 30), {.state = &state});
    for (Index begin = 30; begin < 36; begin += piece) {
      const Index count = std::min(piece, 36 - begin);
      of.model.forward(of.context, segments_of(ids.subspan(at(begin), at(count)), count),
                       {.state = &state, .shares = &shares});
    }
    Doubles found;
    for (const AttentionShares& layer : shares) {
      EXPECT_EQ(layer.queries, 6);
      for (const auto* kind : {&layer.compressed, &layer.memory, &layer.segment}) {
        for (const double share : *kind) found.push_back(share / layer.queries);
      }
    }
    EXPECT_LE(difference(found, of.wanted("shares")), 1e-5) << piece;
  }
  // Memories that are not full say nothing.
  std::vector<AttentionShares> shares(2);
  const std::span<const std::int32_t> ids(of.ids.data(), 6);
  if (of.model.config().begins_with_zeros) return;
  of.model.forward(of.context, segments_of(ids, 6), {.shares = &shares});
  EXPECT_EQ(shares[0].queries, 0);
}

/// Reading in pieces, with the state written to disk between them, equals reading at once; streams
/// do not influence each other.
TEST_P(MemoryFixture, StatesGoOnWithTheSameBits) {
  OfPyTorch of(GetParam());
  std::vector<float> alone;
  for (const Index stream : {0, 1}) {
    State state = of.model.start(DType::f32);
    const std::span<const std::int32_t> ids(of.ids.data() + 18 * stream, 18);
    const auto logits =
        of.model.forward(of.context, segments_of(ids, 18), {.state = &state}).to_floats();
    alone.insert(alone.end(), logits.begin(), logits.end());
  }
  const std::span<const std::int32_t> both(of.ids.data(), 36);
  const auto together = of.model.forward(of.context, segments_of(both, 18)).to_floats();
  EXPECT_LE(difference(doubles(together), doubles(alone)), 1e-5);
  for (const Index piece : {1, 4, 6}) {
    std::vector<float> plain, again;
    for (const bool stored : {false, true}) {
      State state = of.model.start(DType::f32);
      for (Index begin = 0; begin < 18; begin += piece) {
        const std::span<const std::int32_t> ids(of.ids.data() + begin,
                                                at(std::min<Index>(piece, 18 - begin)));
        const auto hidden =
            of.model.forward(of.context, segments_of(ids, std::ssize(ids)), {.state = &state})
                .to_floats();
        (stored ? again : plain)
            .insert((stored ? again : plain).end(), hidden.begin(), hidden.end());
        if (!stored) continue;
        const TemporaryFolder folder;
        state.save(folder.path());
        State fresh = of.model.start(DType::f32);
        fresh.restore(folder.path());
        state = std::move(fresh);
      }
    }
    EXPECT_EQ(again, plain) << piece;
    EXPECT_LE(difference(doubles(plain), {alone.begin(), alone.begin() + 18 * 12}), 1e-5);
  }
}

/// Logits of a character are decided by the text before it alone.
TEST_P(MemoryFixture, TheFutureIsUnknown) {
  OfPyTorch of(GetParam());
  std::vector<std::int32_t> ids(of.ids.begin(), of.ids.begin() + 18);
  const auto before = of.model.forward(of.context, segments_of(ids, 18)).to_floats();
  for (std::size_t i = 9; i < 18; ++i) ids[i] = (ids[i] + 5) % 27;
  const auto after = of.model.forward(of.context, segments_of(ids, 18)).to_floats();
  // Features of a block share maxima, which later tokens may raise.
  const bool has_features = of.model.config().has_features();
  EXPECT_LE(difference({after.begin(), after.begin() + 9 * 12},
                       {before.begin(), before.begin() + 9 * 12}),
            has_features ? 1e-5 : 0);
  EXPECT_FALSE(
      std::equal(before.begin() + 9 * 12, before.begin() + 10 * 12, after.begin() + 9 * 12));
}

INSTANTIATE_TEST_SUITE_P(
    Models, MemoryFixture,
    testing::Values("recurrent", "recurrent_post", "recurrent_same_length", "transformer_xl",
                    "compressive", "compressive_shared", "compressive_max", "compressive_dilated",
                    "compressive_waiting", "compressive_used", "compressive_autoencoding",
                    "compressive_bptt", "recurrent_sinusoidal", "recurrent_infused",
                    "compressive_infused", "compressive_unplaced", "dense_relative",
                    "dense_learned", "dense_infused", "dense_unplaced", "window_sinusoidal",
                    "performer_softmax", "performer_hyperbolic", "performer_relu",
                    "performer_elu"));

/// Each law of docs/spec/language-models.md#g3 makes two models the same.
TEST(MemoryModels, SpecialCasesAreOtherModels) {
  const auto ids = fox();
  const auto read = [&](const LanguageModelConfig& config, const Tensors& tensors) {
    const Stored stored(tensors);
    const LanguageModel model(config, stored.weights, DType::f32);
    MemoryPool memory;
    const ops::Context context = {.memory = memory, .threads = 2};
    return doubles(model.forward(context, segments_of(ids, 30)).to_floats());
  };
  LanguageModelConfig whole = tiny(LmAttention::recurrent);
  whole.lengths = {.segment = 30, .memory = 0};
  const Doubles at_once = read(whole, golden_tensors(whole));
  LanguageModelConfig dense = whole;
  dense.attention = LmAttention::dense;
  dense.windows = {kMaxReach, kMaxReach};
  dense.dilations = {0, 0};
  EXPECT_LE(difference(read(dense, golden_tensors(dense)), at_once), 1e-5);
  // A memory that is longer than the text.
  LanguageModelConfig longer = whole;
  longer.lengths = {.segment = 4, .memory = 30};
  EXPECT_LE(difference(read(longer, golden_tensors(longer)), at_once), 1e-5);
  // Rows of equal number are a window.
  LanguageModelConfig same = whole;
  same.lengths = {.segment = 4, .memory = 6, .same_length = true};
  LanguageModelConfig window = tiny(LmAttention::window);
  window.windows = {5, 5};
  window.dilations = {0, 0};
  EXPECT_LE(difference(read(same, golden_tensors(same)), read(window, golden_tensors(window))),
            1e-5);

  LanguageModelConfig recurrent = whole;
  recurrent.lengths = {.segment = 6, .memory = 4};
  LanguageModelConfig compressive = tiny(LmAttention::compressive);
  const auto tensors_of = [](const LanguageModelConfig& config, const Tensor& kernel) {
    LanguageModelConfig plain = config;
    plain.attention = LmAttention::recurrent;
    Tensors tensors = golden_tensors(plain);
    for (const char* layer : {"layers.0.", "layers.1."}) {
      const std::string name = layer;
      tensors.emplace_back(name + "compression.weight", kernel);
      tensors.emplace_back(name + "compressed_relative_key.weight", det({8, 8}, 31, 0.3));
    }
    tensors.emplace_back("compressed_relative_position", det({2, 4}, 33, 0.3));
    return tensors;
  };
  // Nothing is kept of what is compressed.
  compressive.lengths = {.segment = 6, .memory = 4, .compressed = 0};
  EXPECT_LE(difference(read(compressive, tensors_of(compressive, det({8, 8, 2}, 30, 0.3))),
                       read(recurrent, golden_tensors(recurrent))),
            1e-5);
  // Rows that are compressed one by one, as they are.
  std::vector<float> identity(64, 0.0f), half(128, 0.0f);
  for (std::size_t i = 0; i < 8; ++i) identity[i * 9] = 1;
  for (std::size_t i = 0; i < 8; ++i) half[i * 18] = half[i * 18 + 1] = 0.5f;
  compressive.lengths = {.segment = 6, .memory = 4, .compressed = 5};
  compressive.compression_rate = 1;
  compressive.separate_positions = false;
  LanguageModelConfig longest = recurrent;
  longest.lengths.memory = 9;
  EXPECT_LE(
      difference(read(compressive, tensors_of(compressive, Tensor::from(identity, {8, 8, 1}))),
                 read(longest, golden_tensors(longest))),
      1e-5);
  // The mean is a convolution.
  compressive.compression_rate = 2;
  const Doubles convolution =
      read(compressive, tensors_of(compressive, Tensor::from(half, {8, 8, 2})));
  compressive.compression = Compression::mean;
  EXPECT_LE(difference(read(compressive, tensors_of(compressive, Tensor::from(half, {8, 8, 2}))),
                       convolution),
            1e-6);
}

TEST(DenseModels, ReadOnInPiecesAsFarAsTheTextGoes) {
  LanguageModelConfig config = tiny(LmAttention::dense);
  config.windows = {kMaxReach, kMaxReach};
  config.dilations = {0, 0};
  Whole whole(config);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 180; ++i) {
    for (const std::int32_t id : fox()) ids.push_back((id + i) % 27);
  }
  // More rows than there is room for at first, and distances than the first table has.
  const auto n = std::ssize(ids);
  const Doubles at_once =
      doubles(whole.model.forward(whole.context, segments_of(ids, n)).to_floats());
  State state = whole.model.start(DType::f32);
  Doubles pieces;
  for (Index begin = 0; begin < n; begin += 700) {
    const std::span<const std::int32_t> part(ids.data() + begin,
                                             at(std::min<Index>(700, n - begin)));
    const auto own =
        whole.model.forward(whole.context, segments_of(part, std::ssize(part)), {.state = &state})
            .to_floats();
    pieces.insert(pieces.end(), own.begin(), own.end());
  }
  EXPECT_LE(difference(pieces, at_once), 1e-5);
}

TEST(MemoryModels, LossesTrainDisjointWeights) {
  OfPyTorch of("compressive");
  State state = of.model.start(DType::f32, 2);
  for (const Index number : {0, 1}) {
    of.model.forward(of.context, segments_of(of.segment(number, 0), 6), {.state = &state});
  }
  Tape tape;
  of.context.tape = &tape;
  NamedLosses losses;
  of.model.forward(of.context, segments_of(of.segment(2, 0), 6),
                   {.state = &state, .losses = &losses});
  ASSERT_EQ(losses.size(), 2u);
  for (auto& [name, loss] : losses) {
    EXPECT_EQ(name, kCompressionLoss);
    loss.gradient()->sum = Tensor::from(std::vector<float>{1}, {1});
  }
  tape.backward();
  for (const auto& [name, value] : of.weights.parameters()) {
    EXPECT_EQ(!value.gradient()->sum.empty(), name.find("compression.weight") != std::string::npos)
        << name;
  }
}

/// Rows that a pass has compressed are constant for the next one, and segments of a pass drop
/// others.
TEST(MemoryModels, UnrolledPassesEndWithConstants) {
  OfPyTorch of("compressive_bptt");
  State state = of.model.start(DType::f32, 2);
  Tape tape;
  of.context.tape = &tape;
  of.model.forward(of.context, segments_of(of.segment(0, 0, 2), 12), {.state = &state});
  tape = Tape();
  of.model.forward(of.context, segments_of(of.segment(2, 0), 6), {.state = &state});
  const auto ops = tape.ops();
  // Nothing compressed in this pass was looked at: only its own compression is on the tape.
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "joined_rows"), 2);
  expect_error(error_of([&] {
                 of.model.forward(of.context, segments_of(of.segment(0, 0, 3), 18),
                                  {.state = &state});
               }),
               {"2 segments of 6", "18"});
}

TEST(MemoryModels, BadLengthsAndTexts) {
  OfPyTorch of("recurrent");
  const auto ids = fox();
  expect_error(error_of([&] { of.model.start(DType::f32, 1, {.segment = 0, .memory = 2}); }),
               {"segment_length"});
  expect_error(error_of([&] {
                 of.model.start(DType::f32, 1, {.segment = 4, .memory = 2, .compressed = 3});
               }),
               {"compressed_memory_length: expected 0 unless the attention is compressive"});
  Batch uneven = segments_of(ids, 20);
  expect_error(error_of([&] { of.model.forward(of.context, uneven); }),
               {"streams of 20 tokens each"});
  State two = of.model.start(DType::f32, 2);
  expect_error(
      error_of([&] { of.model.forward(of.context, segments_of(ids, 30), {.state = &two}); }),
      {"expected 1 streams, found 2"});
  Tape tape;
  ops::Context training = of.context;
  training.tape = &tape;
  expect_error(error_of([&] { of.model.forward(training, segments_of(ids, 30)); }),
               {"segment of 6"});
  const OfPyTorch window("compressive");
  const TemporaryFolder folder;
  two.save(folder.path());
  State other = window.model.start(DType::f32, 1);
  expect_error(error_of([&] { other.restore(folder.path()); }), {"streams"});
}

}  // namespace
}  // namespace longformer::models::memory_lm_test
