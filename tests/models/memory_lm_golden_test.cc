// Transformer-XL, the Compressive Transformer and the Performer against the golden vectors of their
// specification: a numpy script in double precision, checked against the authors' code
// (docs/spec/golden.md#m2, #m7, #m8).
//
// Reruns: tsan
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "memory_lm_testing.h"
#include "models/attention/memory.h"
#include "ops/positions.h"

namespace longformer::models::memory_lm_golden_test {
namespace {

/// x·Wᵀ of x [n, in] and W [out, in].
Doubles product(const std::vector<float>& x, const Tensor& weight) {
  const std::vector<float> w = weight.to_floats();
  const std::size_t in = at(weight.columns()), out = at(weight.rows());
  Doubles y(x.size() / in * out);
  for (std::size_t i = 0; i < y.size(); ++i) {
    for (std::size_t c = 0; c < in; ++c) {
      y[i] += static_cast<double>(x[i / out * in + c]) * static_cast<double>(w[i % out * in + c]);
    }
  }
  return y;
}

/// The attention of one layer on rows that are given, as docs/spec/golden.md#m2 and #m7 have it.
struct Layer {
  Layer(LanguageModelConfig of, const Tensors& tensors)
      : config(std::move(of)),
        stored(tensors),
        attention(config, 0, {.weights = stored.weights, .initial = {.deviation = 0.3}}),
        state(attention.start(DType::f32, 1)),
        output(det({8, 8}, 2, 0.5)) {}

  /// Numbers after the output projection.
  Doubles read(const Tensor& rows) {
    SharedInput shared;
    shared.starts = {0, rows.rows()};
    shared.make_distances = [this] { return ops::sinusoids(context, 64, 8); };
    losses.clear();
    const Tensor found = attention.forward(
        context, rows, {.shared = shared, .state = state.get(), .losses = &losses});
    return product(found.to_floats(), output);
  }
  Doubles loss() const { return doubles(losses.at(0).second.to_floats()); }
  /// Rows that are kept: recent ones (0) or compressed ones (1).
  Doubles kept(std::size_t kind) const { return doubles(state->saved().at(kind).to_floats()); }

  LanguageModelConfig config;
  Stored stored;
  MemoryAttention attention;
  std::unique_ptr<LayerState> state;
  Tensor output;
  MemoryPool memory;
  ops::Context context = {.memory = memory, .threads = 2};
  NamedLosses losses;
};

Layer transformer_xl(const MemoryLengths& lengths) {
  LanguageModelConfig config = tiny(LmAttention::recurrent);
  config.lengths = lengths;
  return {config,
          {{"layers.0.query_key_value.weight", det({24, 8}, 1, 0.5)},
           {"layers.0.relative_key.weight", det({8, 8}, 3, 0.5)},
           {"relative_content", det({2, 4}, 4, 0.3)},
           {"relative_position", det({2, 4}, 5, 0.3)}}};
}

Doubles normalised(Doubles x, std::size_t width) {
  for (std::size_t begin = 0; begin < x.size(); begin += width) {
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < width; ++c) mean += x[begin + c] / static_cast<double>(width);
    for (std::size_t c = 0; c < width; ++c) {
      variance += (x[begin + c] - mean) * (x[begin + c] - mean) / static_cast<double>(width);
    }
    for (std::size_t c = 0; c < width; ++c) {
      x[begin + c] = (x[begin + c] - mean) / std::sqrt(variance + 1e-5);
    }
  }
  return x;
}
Tensor tensor_of(const Doubles& x, Index width) {
  return Tensor::from(std::vector<float>(x.begin(), x.end()), {std::ssize(x) / width, width});
}
Doubles sum(Doubles a, const Doubles& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

TEST(TransformerXl, AttentionIsThatOfTheGoldenVectors) {
  const Tensor rows = det({4, 8}, 6, 1), kept = det({3, 8}, 7, 1);
  const Doubles x = doubles(rows.to_floats());
  const Tensor none = Tensor::zeros({0, 8}, DType::f32);
  const std::vector<Tensor> memory = {kept, none, none};
  {
    Layer layer = transformer_xl({.segment = 4, .memory = 3});
    layer.state->restore(memory);
    const Doubles post = normalised(sum(x, layer.read(rows)), 8);
    EXPECT_LE(difference({post.begin(), post.begin() + 8},
                         {-1.413944249, -1.370080249, -0.761565679, 0.143927793, 0.942541332,
                          1.274291011, 0.985364182, 0.199465859}),
              2e-6);
    EXPECT_LE(difference({post.end() - 8, post.end()},
                         {0.682109246, -0.303929326, -1.075079089, -1.285691390, -0.835647158,
                          0.082077182, 1.063782122, 1.672378411}),
              2e-6);
  }
  {
    Layer layer = transformer_xl({.segment = 4, .memory = 3});
    const Tensor before = tensor_of(normalised(doubles(kept.to_floats()), 8), 8);
    layer.state->restore(std::vector<Tensor>{before, none, none});
    const Doubles pre = sum(x, layer.read(tensor_of(normalised(x, 8), 8)));
    EXPECT_LE(difference({pre.end() - 8, pre.end()},
                         {0.545913469, -1.899325836, -3.511742669, -3.568361613, -2.034908100,
                          0.414639052, 2.693831805, 3.785274597}),
              2e-6);
  }
  {
    Layer layer = transformer_xl({.segment = 4, .memory = 3, .clamp = 2, .same_length = true});
    layer.state->restore(memory);
    const Doubles post = normalised(sum(x, layer.read(rows)), 8);
    EXPECT_LE(difference({post.begin() + 8, post.begin() + 16},
                         {-0.632929746, -1.195966326, -1.213945097, -0.671978969, 0.193033259,
                          0.995746160, 1.373958543, 1.152082175}),
              2e-6);
    EXPECT_LE(difference({post.end() - 8, post.end()},
                         {0.857983918, -0.140458682, -0.990224338, -1.310317348, -0.952138836,
                          -0.068502046, 0.951216444, 1.652440887}),
              2e-6);
  }
  {
    Layer layer = transformer_xl({.segment = 4, .memory = 3});
    const Doubles post = normalised(sum(x, layer.read(rows)), 8);
    EXPECT_LE(difference({post.begin(), post.begin() + 8},
                         {-1.279095902, -1.380672817, -0.898647709, -0.044341531, 0.801161515,
                          1.256948093, 1.113911267, 0.430737083}),
              2e-6);
  }
}

struct CompressiveCase {
  std::string name;
  std::function<void(LanguageModelConfig&)> change;
  /// Segments that are read of the four.
  Index segments = 4;
  /// The last row of the output, the newest compressed row, the loss of the last segment.
  Doubles output, newest;
  double loss;
  Index recent = 4;
};

Layer compressive(const CompressiveCase& wanted) {
  LanguageModelConfig config = tiny(LmAttention::compressive);
  config.lengths = {.segment = 4, .memory = 4, .compressed = 3};
  wanted.change(config);
  return {config,
          {{"layers.0.query_key_value.weight", det({24, 8}, 1, 0.5)},
           {"layers.0.relative_key.weight", det({8, 8}, 3, 0.5)},
           {"layers.0.compressed_relative_key.weight", det({8, 8}, 4, 0.5)},
           {"relative_content", det({2, 4}, 5, 0.3)},
           {"relative_position", det({2, 4}, 6, 0.3)},
           {"compressed_relative_position", det({2, 4}, 7, 0.3)},
           {"layers.0.compression.weight", det({8, 8, 2}, 8, 0.4)},
           {"layers.0.compression.decoder.weight", det({8, 8, 2}, 9, 0.4)},
           {"layers.0.compression.dilated.0.weight", det({8, 8, 2}, 10, 0.5)},
           {"layers.0.compression.dilated.1.weight", det({8, 8, 2}, 11, 0.5)}}};
}

const Doubles newest = {0.520248808, -0.211116885, -0.605964357, -0.034910487,
                        0.591790337, 0.275183109,  -0.480063302, -0.470093498};

void expect_golden(const std::vector<CompressiveCase>& cases) {
  for (const CompressiveCase& wanted : cases) {
    SCOPED_TRACE(wanted.name);
    Layer layer = compressive(wanted);
    Doubles output;
    for (Index s = 0; s < wanted.segments; ++s) {
      output = layer.read(det({4, 8}, 20 + static_cast<double>(s), 1));
    }
    EXPECT_LE(difference({output.end() - 8, output.end()}, wanted.output), 1e-5);
    const Doubles compressed = layer.kept(1);
    EXPECT_EQ(layer.kept(0).size(), at(8 * wanted.recent));
    EXPECT_LE(difference({compressed.end() - 8, compressed.end()}, wanted.newest), 1e-5);
    EXPECT_LE(difference(layer.loss(), {wanted.loss}), 1e-5);
  }
}

TEST(Compressive, AttentionIsThatOfTheGoldenVectors) {
  expect_golden({
      {"convolution",
       [](LanguageModelConfig&) {},
       4,
       {-1.062573965, 1.306371478, 3.088928219, 3.484963201, 2.316708854, 0.108557532, -2.148321901,
        -3.440887848},
       newest,
       1.5869272584604859},
      {"shared positions",
       [](LanguageModelConfig& c) { c.separate_positions = false; },
       4,
       {-1.069273455, 1.309283338, 3.100144386, 3.499449096, 2.327962217, 0.111527087, -2.154969094,
        -3.454168075},
       newest,
       1.586927258},
      {"zeros",
       [](LanguageModelConfig& c) { c.begins_with_zeros = true; },
       2,
       {-0.838205401, -2.424522666, -2.922548690, -2.108735425, -0.348377776, 1.568355523,
        2.781103934, 2.745503088},
       {-0.332464011, 0.072138592, 0.361752996, 0.074736622, -0.331409187, -0.209291960,
        0.246434598, 0.309346808},
       1.317602752},
      {"mean",
       [](LanguageModelConfig& c) { c.compression = Compression::mean; },
       4,
       {-1.101870787, 1.317589951, 3.145626370, 3.561691032, 2.379025676, 0.128491306, -2.179718816,
        -3.509522374},
       {0.351498650, -0.294336311, -0.801740289, -0.932073295, -0.624037683, -0.022507370,
        0.589608505, 0.924422264},
       0.098841678},
      {"max",
       [](LanguageModelConfig& c) { c.compression = Compression::largest; },
       4,
       {-1.100993015, 1.317004465, 3.143840431, 3.559506291, 2.377422795, 0.128189766, -2.178583663,
        -3.507460062},
       {0.662304044, 0.023887532, -0.625763655, -0.883038163, -0.373052776, 0.312385201,
        0.850903511, 0.989228606},
       0.059580005},
      {"a remainder that waits",
       [](LanguageModelConfig& c) {
         c.lengths.memory = 5;
         c.compression_rate = 3;
         c.compression = Compression::mean;
       },
       4,
       {-1.097960595, 1.308416574, 3.127487060, 3.542727950, 2.367750748, 0.129965487, -2.166157237,
        -3.489960760},
       {0.300879002, 0.223038415, 0.040299383, -0.161393071, -0.287179828, -0.277901451,
        -0.137921671, 0.066924836},
       2.016074664,
       7},
      {"a memory shorter than a segment",
       [](LanguageModelConfig& c) { c.lengths.memory = 2; },
       4,
       {-0.695363495, 1.413767472, 2.888303090, 3.066371196, 1.868042630, -0.168790891,
        -2.129859623, -3.134901997},
       {-0.563188446, 0.284258310, 0.678600138, -0.008740118, -0.682148685, -0.268218877,
        0.573249201, 0.500963657},
       1.141429224,
       2},
  });
}

TEST(Compressive, OtherLossesAndKindsAreThoseOfTheGoldenVectors) {
  expect_golden({
      {"auto-encoding",
       [](LanguageModelConfig& c) { c.compression_loss = CompressionLoss::autoencoding; },
       4,
       {-1.062573965, 1.306371478, 3.088928219, 3.484963201, 2.316708854, 0.108557532, -2.148321901,
        -3.440887848},
       newest,
       0.7730719279468368},
      {"most-used",
       [](LanguageModelConfig& c) { c.compression = Compression::most_used; },
       4,
       {-1.142340913, 1.275182861, 3.120317510, 3.564840747, 2.409220159, 0.172177211, -2.142150703,
        -3.494935186},
       {-0.599183440, -0.974049032, -0.890804172, -0.388600141, 0.296368569, 0.841950536,
        0.991549969, 0.674807966},
       0.299590343},
  });
}

TEST(Compressive, DilatedConvolutionsAreThoseOfTheGoldenVectors) {
  Layer layer = compressive({"dilated",
                             [](LanguageModelConfig& c) {
                               c.lengths.segment = 8;
                               c.compression = Compression::dilated;
                               c.dilation_rates = {1, 2};
                             },
                             3,
                             {},
                             {},
                             0});
  Doubles output;
  for (const double first : {20.0, 22.0, 20.0}) {
    std::vector<float> rows;
    for (const double seed : {first, first + 1}) {
      const auto part = det({4, 8}, seed, 1).to_floats();
      rows.insert(rows.end(), part.begin(), part.end());
    }
    output = layer.read(Tensor::from(rows, {8, 8}));
  }
  EXPECT_LE(difference({output.end() - 8, output.end()},
                       {-0.844002293, -2.430418144, -2.925896462, -2.108032782, -0.343940111,
                        1.574536281, 2.786253441, 2.747309893}),
            1e-5);
  const Doubles compressed = layer.kept(1);
  EXPECT_EQ(layer.kept(0).size(), 32u);
  EXPECT_EQ(compressed.size(), 24u);
  EXPECT_LE(difference({compressed.end() - 8, compressed.end()},
                       {0.264814564, 1.119882204, 0.189868498, -1.042793744, -0.613252897,
                        0.793807104, 0.935546296, -0.413966204}),
            1e-5);
  EXPECT_LE(difference(layer.loss(), {1.277924518}), 1e-5);
}

struct GoldenModel {
  LmAttention attention;
  bool post_norm;
  double loss;
  std::array<Doubles, 3> logits;
  Doubles auxiliary;
};

TEST(MemoryModels, LogitsAreThoseOfTheGoldenVectors) {
  const std::vector<GoldenModel> models = {
      {LmAttention::recurrent,
       false,
       3.798726472,
       {{{1.121827490, 0.414956651, -0.479083009, -1.154668437, -1.305837111, -0.864900054},
         {-0.101443511, -1.074236642, -1.565747097, -1.351034266, -0.523762314, 0.544566852},
         {-1.066393104, -1.701835435, -1.574285945, -0.736680333, 0.437720431, 1.421599344}}},
       {}},
      {LmAttention::recurrent,
       true,
       3.512844935,
       {{{1.540295420, 1.014273494, 0.032068488, -0.961121994, -1.516772565, -1.385635176},
         {-0.408114396, -0.800327091, -0.834206431, -0.490227923, 0.079921168, 0.620153108},
         {0.452048648, -0.377422525, -1.038388731, -1.229846139, -0.863141878, -0.103043695}}},
       {}},
      {LmAttention::compressive,
       false,
       3.692336450,
       {{{-0.376987229, 0.246045038, 0.757727534, 0.932699249, 0.695134729, 0.151503200},
         {-1.545966199, -1.522918016, -0.817188374, 0.258760293, 1.224682501, 1.646840548},
         {1.050779785, 0.274641210, -0.625683071, -1.241749036, -1.294310493, -0.759940151}}},
       {1.370875148, 0.606934986, 0.962808081, 0.65308865}},
      {LmAttention::performer,
       false,
       3.552088844,
       {{{0.134125297, 0.390493747, 0.470673954, 0.342992612, 0.067475639, -0.232372139},
         {-0.808165550, -0.583352458, -0.097598994, 0.435372655, 0.779042155, 0.778981270},
         {-0.364937129, -0.700198504, -0.722071042, -0.416419716, 0.082271976, 0.549991317}}},
       {}}};
  const auto ids = fox();
  for (const GoldenModel& wanted : models) {
    LanguageModelConfig config = tiny(wanted.attention);
    config.post_norm = wanted.post_norm;
    config.final_layer_norm = !wanted.post_norm;
    if (wanted.post_norm) config.activation = Activation::relu;
    SCOPED_TRACE(fmt::format("{} {}", name_of(wanted.attention), wanted.post_norm));
    Whole whole(config);
    // Segment by segment, all at once, and in pieces that fit none of them.
    for (const Index piece : {6, 30, 1, 4, 11}) {
      SCOPED_TRACE(piece);
      State state = whole.model.start(DType::f32);
      Doubles logits, auxiliary;
      for (Index begin = 0; begin < 30; begin += piece) {
        const std::span<const std::int32_t> part(ids.data() + begin,
                                                 at(std::min(piece, 30 - begin)));
        NamedLosses losses;
        const Tensor hidden =
            whole.model.forward(whole.context, segments_of(part, std::ssize(part)),
                                {.state = &state, .losses = &losses});
        const Doubles own = whole.logits(hidden);
        logits.insert(logits.end(), own.begin(), own.end());
        if (piece > 6) continue;
        double sum = 0;
        for (const auto& [name, loss] : losses) sum += doubles(loss.to_floats())[0] / 2;
        if (!losses.empty()) auxiliary.push_back(sum);
      }
      ASSERT_EQ(logits.size(), 30u * 27);
      for (const std::size_t row : {0u, 13u, 29u}) {
        const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * 27);
        EXPECT_LE(difference({begin, begin + 6}, wanted.logits[row / 13]), 1e-5) << row;
      }
      double loss = 0;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        double all = 0;
        for (std::size_t c = 0; c < 27; ++c) all += std::exp(logits[i * 27 + c]);
        loss += (std::log(all) - logits[i * 27 + at(ids[i + 1])]) / 29;
      }
      EXPECT_LE(difference({loss}, {wanted.loss}), 1e-6);
      if (piece <= 6 && !wanted.auxiliary.empty()) {
        EXPECT_LE(difference(auxiliary, wanted.auxiliary), 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace longformer::models::memory_lm_golden_test
