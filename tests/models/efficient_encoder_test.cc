// Linformer and Performer encoders against an independent PyTorch version in double precision
// (tests/fixtures/make_efficient_encoders.py), the golden vectors (docs/spec/golden.md#m6), and the
// laws that must hold (docs/spec/low-rank-and-kernels.md#e6, #f7).
//
// Reruns: tsan
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "doubles.h"
#include "error_testing.h"
#include "fixtures.h"
#include "formats/safetensors.h"
#include "golden.h"
#include "models/attention/attention.h"
#include "models/batch.h"
#include "models/encoder.h"
#include "models/registry.h"
#include "temporary_folder.h"

namespace longformer::models::efficient_encoder_test {
namespace {

/// Largest difference by the largest number of `right`, and at least by `least`; NaN where there is
/// one.
double difference(const Doubles& found, const Doubles& right, double least = 1e-12) {
  double most = 0, scale = least;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const double off = std::abs(found.at(i) - right[i]);
    if (!(off <= most)) most = off;
    scale = std::max(scale, std::abs(right[i]));
  }
  return most / scale;
}

std::string fixture(const std::string& name) {
  return (fixtures_folder() / "efficient" / name).string();
}

/// The documents of make_efficient_encoders.py.
const std::vector<std::vector<std::int32_t>> kIds = {{5, 9, 3, 7, 11, 4, 8, 6, 10, 12, 13, 14},
                                                     {5, 6, 7, 8, 9, 10, 11},
                                                     {4, 5, 6, 7, 8, 9, 10, 11, 12},
                                                     {7}};
const std::vector<std::vector<std::int32_t>> kMasks = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 0, 0}, {1, 1, 0, 1, 1, 1, 0, 0, 0}, {1}};

struct OfPyTorch {
  explicit OfPyTorch(const std::string& name)
      : config(read_config(fixture(name) + "/config.json")),
        weights(Weights::trained(Weights::open(fixture(name), config.family->names), {})),
        encoder(config, weights, DType::f32),
        expected(formats::SafetensorsFile::open(fixture(name) + "/expected.safetensors")) {}

  Batch batch() const {
    BatchBuilder builder(config);
    for (std::size_t i = 0; i < kIds.size(); ++i) {
      builder.add({.ids = kIds[i], .mask = kMasks[i]}, "document");
    }
    return builder.finish();
  }
  Doubles wanted(const std::string& name) const { return doubles(expected.tensors().at(name)); }

  EncoderConfig config;
  Weights weights;
  /// Sums of signed features lose digits.
  double tolerance() const {
    const bool is_signed =
        config.features && config.features->kernel == kernels::FeatureKernel::trigonometric;
    return is_signed ? 1e-3 : 1e-5;
  }

  Encoder encoder;
  formats::SafetensorsFile expected;
  MemoryPool memory;
  ops::Context context = {.memory = memory, .threads = 2};
};

/// Rows that are not masked.
Doubles seen(const Doubles& rows, const Batch& batch, Index width) {
  Doubles some;
  for (Index row = 0; row < batch.rows(); ++row) {
    if (batch.mask[at(row)] == 0) continue;
    some.insert(some.end(), rows.begin() + row * width, rows.begin() + (row + 1) * width);
  }
  return some;
}

class EfficientFixture : public testing::TestWithParam<std::string> {};

TEST_P(EfficientFixture, HiddenStatesAndGradientsAreThoseOfPyTorch) {
  OfPyTorch of(GetParam());
  Tape tape;
  of.context.tape = &tape;
  const Batch batch = of.batch();
  const Tensor hidden = of.encoder.forward(of.context, batch);
  const Index width = of.config.hidden_size;
  EXPECT_LE(
      difference(seen(doubles(hidden), batch, width), seen(of.wanted("hidden"), batch, width)),
      of.tolerance());
  const Doubles direction = of.wanted("direction");
  hidden.gradient()->sum =
      Tensor::from(std::vector<float>(direction.begin(), direction.end()), hidden.shape());
  tape.backward();
  std::size_t compared = 0;
  for (const auto& [name, value] : of.weights.parameters()) {
    if (!wants_gradient(value)) {
      EXPECT_TRUE(name.ends_with("features") || of.config.linformer->is_frozen) << name;
      continue;
    }
    ++compared;
    const Doubles wanted = of.wanted("gradient." + name);
    const Tensor& sum = value.gradient()->sum;
    const Doubles found = sum.empty() ? Doubles(wanted.size(), 0.0) : doubles(sum);
    // The bias of keys has none but for rounding: a softmax does not see it.
    EXPECT_LE(difference(found, wanted, 0.1), 3 * of.tolerance()) << name;
  }
  EXPECT_GE(compared, 37u);
}

/// Every document alone, whole numbers of them together, one thread or several.
TEST_P(EfficientFixture, DocumentsKnowNothingOfEachOther) {
  OfPyTorch of(GetParam());
  const Batch batch = of.batch();
  const Doubles together = doubles(of.encoder.forward(of.context, batch));
  for (std::size_t i = 0; i < kIds.size(); ++i) {
    BatchBuilder builder(of.config);
    // Behind the last token that is seen there may be padding, or nothing.
    std::size_t count = kIds[i].size();
    while (kMasks[i][count - 1] == 0) --count;
    builder.add({.ids = std::span(kIds[i]).first(count), .mask = std::span(kMasks[i]).first(count)},
                "document");
    const Batch one = builder.finish();
    of.context.threads = 1;
    const Doubles alone = doubles(of.encoder.forward(of.context, one));
    const Index width = of.config.hidden_size;
    const auto begin = together.begin() + batch.starts[i] * width;
    Doubles same;
    for (Index row = 0; row < static_cast<Index>(count); ++row) {
      if (kMasks[i][at(row)] == 0) continue;
      for (Index c = 0; c < width; ++c) {
        same.push_back(alone[at(row * width + c)] - begin[row * width + c]);
      }
    }
    for (const double off : same) EXPECT_TRUE(std::abs(off) <= of.tolerance()) << GetParam() << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EfficientFixture,
                         testing::Values("linformer_layerwise", "linformer_key_value",
                                         "linformer_headwise", "linformer_none", "linformer_frozen",
                                         "linformer_mean", "linformer_max", "linformer_convolution",
                                         "linformer_full_convolution", "performer_softmax",
                                         "performer_hyperbolic", "performer_trigonometric",
                                         "performer_relu", "performer_elu"));

/// One layer of docs/spec/golden.md#m6: 8 numbers, 2 heads, documents of up to 6 tokens, 3 slots.
struct GoldenLayer {
  GoldenLayer(Projection projection, ProjectionSharing sharing,
              const std::vector<std::pair<std::string, Tensor>>& few) {
    config.hidden_size = 8;
    config.heads = 2;
    config.layers = 1;
    const HeadPattern everything = {kernels::kUnlimitedReach, kernels::kUnlimitedReach, 1};
    config.patterns.assign(1, std::vector<HeadPattern>(2, everything));
    config.linformer = {.projection = projection, .sharing = sharing, .lengths = {3}, .most = 6};
    const std::string name = "encoder.layer.0.attention.self.";
    std::vector<std::pair<std::string, Tensor>> tensors = few;
    for (int part = 0; part < 3; ++part) {
      const char* parts[] = {"query", "key", "value"};
      tensors.emplace_back(name + parts[part] + ".weight", det({8, 8}, 2 + part, 0.5));
      tensors.emplace_back(name + parts[part] + ".bias", det({8}, 5 + part, part == 0 ? 0.1 : 0.4));
    }
    formats::write_safetensors((folder.path() / "model.safetensors").string(), tensors);
    weights = std::make_unique<Weights>(Weights::open(folder.name(), {}));
    attention = linformer_attention(config, 0, {.weights = *weights});
  }

  Doubles read(Index tokens, std::vector<std::uint8_t> mask = {}) {
    SharedInput shared;
    shared.starts = {0, tokens};
    kernels::AttentionRows rows = kernels::self_attention_rows(shared.starts);
    rows.key_mask = std::move(mask);
    shared.rows = kernels::shared(std::move(rows));
    return doubles(
        attention->forward(context, det({6, 8}, 1, 1).slice_rows(0, tokens), {.shared = shared}));
  }

  TemporaryFolder folder;
  EncoderConfig config;
  std::unique_ptr<Weights> weights;
  std::unique_ptr<Attention> attention;
  MemoryPool memory;
  ops::Context context = {.memory = memory, .threads = 2};
};

const std::string kOwn = "encoder.layer.0.attention.self.";

TEST(Linformer, AttentionIsThatOfTheGoldenVectors) {
  const Tensor e = det({3, 6}, 8, 0.6), f = det({3, 6}, 9, 0.6);
  const auto head = [](const Doubles& rows, Index row) {
    return Doubles(rows.begin() + row * 8, rows.begin() + (row + 1) * 8);
  };
  GoldenLayer headwise(
      Projection::linear, ProjectionSharing::headwise,
      {{kOwn + "key_projection.weight", e}, {kOwn + "value_projection.weight", f}});
  EXPECT_LE(
      difference(head(headwise.read(6), 2), {-3.592504627, -3.291125667, -1.504049558, 0.965657149,
                                             3.007621510, 3.697640552, 2.720535444, 0.513802924}),
      2e-6);
  EXPECT_LE(
      difference(head(headwise.read(4), 3), {-2.322163608, -1.844565100, -0.530584520, 1.029069110,
                                             2.135339506, 2.275378106, 1.386700995, -0.132887597}),
      2e-6);
  EXPECT_LE(difference(head(headwise.read(6, {1, 1, 0, 1, 1, 1}), 1),
                       {-1.469226081, -1.154026390, -0.312405512, 0.676954774, 1.750197695,
                        2.160698190, 1.593959154, 0.303277027}),
            2e-6);
  GoldenLayer shared(Projection::linear, ProjectionSharing::key_value,
                     {{kOwn + "key_projection.weight", e}});
  EXPECT_LE(
      difference(head(shared.read(6), 1), {-2.259083137, -1.271779892, 0.294800339, 1.736564589,
                                           1.608447716, 2.098673180, 1.639500172, 0.435942156}),
      2e-6);
  GoldenLayer own(Projection::linear, ProjectionSharing::none,
                  {{kOwn + "key_projection.weight", det({2, 3, 6}, 10, 0.6)},
                   {kOwn + "value_projection.weight", det({2, 3, 6}, 11, 0.6)}});
  EXPECT_LE(
      difference(head(own.read(6), 0), {2.687987229, 3.335970506, 2.494958025, 0.541548585,
                                        -1.743232030, -3.136431397, -3.129157061, -1.725768921}),
      2e-6);
  GoldenLayer mean(Projection::mean, ProjectionSharing::key_value, {});
  EXPECT_LE(
      difference(head(mean.read(6), 1), {-0.824540819, -1.792823492, -1.947949239, -1.221192001,
                                         0.041953644, 1.290828436, 1.952920628, 1.729943311}),
      2e-6);
  EXPECT_LE(
      difference(head(mean.read(3), 2), {-0.644038546, -1.710916407, -2.001402829, -1.386012653,
                                         -0.193580385, 1.111664145, 1.910547237, 1.843380889}),
      2e-6);
  GoldenLayer largest(Projection::largest, ProjectionSharing::key_value, {});
  EXPECT_LE(
      difference(head(largest.read(6), 0), {0.159095923, -0.213318111, -0.481565014, -0.526142228,
                                            -0.431770818, -0.314295210, -0.063113202, 0.207932872}),
      2e-6);
  GoldenLayer depthwise(Projection::convolution, ProjectionSharing::key_value,
                        {{kOwn + "key_projection.weight", det({8, 1, 2}, 12, 0.6)}});
  EXPECT_LE(difference(head(depthwise.read(6), 0),
                       {-0.659368422, -0.158181460, 0.422423532, 0.820926505, 0.812472950,
                        0.462981358, -0.101698604, -0.629194733}),
            2e-6);
  GoldenLayer full(Projection::full_convolution, ProjectionSharing::key_value,
                   {{kOwn + "key_projection.weight", det({8, 8, 2}, 13, 0.3)}});
  EXPECT_LE(
      difference(head(full.read(6), 1), {-0.248450774, -0.396349909, -0.357924749, -0.151328076,
                                         0.126331978, 0.344769660, 0.401080462, 0.268893540}),
      2e-6);
}

}  // namespace
}  // namespace longformer::models::efficient_encoder_test
