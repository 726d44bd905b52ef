// Transformer-XL and the Compressive Transformer: the golden vectors of their specification (a
// numpy script in double precision, checked against the authors' code; spec.md M.2, M.7, M.8), and
// the laws that must hold between them (spec.md G.3).
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/memory.h"
#include "error_testing.h"
#include "formats/safetensors.h"
#include "models/attention/memory.h"
#include "models/language_model.h"
#include "ops/relative_positions.h"
#include "temporary_folder.h"

namespace longformer::models {
namespace {

using Doubles = std::vector<double>;

/// The filler of the golden vectors: scale·sin(1 + 0.7·i + 1.3·number).
Tensor det(const Shape& shape, double number, double scale) {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] =
        static_cast<float>(scale * std::sin(1 + 0.7 * static_cast<double>(i) + 1.3 * number));
  }
  return Tensor::from(values, shape);
}

using Tensors = std::vector<std::pair<std::string, Tensor>>;

/// Weights of a file that holds these tensors.
struct Stored {
  explicit Stored(const Tensors& tensors, bool trained = false)
      : weights(
            (formats::write_safetensors((folder.path() / "model.safetensors").string(), tensors),
             trained ? Weights::trained(Weights::open(folder.name(), {}), {})
                     : Weights::open(folder.name(), {}))) {}
  TemporaryFolder folder;
  Weights weights;
};

LanguageModelConfig tiny(LmAttention attention) {
  LanguageModelConfig config;
  config.attention = attention;
  config.alphabet = text::Alphabet::text8;
  config.vocab_size = 27;
  config.hidden_size = 8;
  config.layers = 2;
  config.heads = 2;
  config.head_size = 4;
  config.intermediate_size = 12;
  config.layer_norm_eps = 1e-5;
  config.initializer_range = 0.3;
  config.lengths = {.segment = 6, .memory = 7};
  if (attention == LmAttention::compressive) {
    config.lengths.compressed = 4;
    config.compression_rate = 2;
    config.attention_loss = true;
  }
  return config;
}

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

/// Largest difference over the largest number wanted; NaN where either has one or sizes differ.
double difference(const Doubles& found, const Doubles& wanted) {
  if (found.size() != wanted.size()) return NAN;
  double largest = 0, scale = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double here = std::abs(found[i] - wanted[i]);
    if (!(here <= largest)) largest = here;
    scale = std::max(scale, std::abs(wanted[i]));
  }
  return largest / scale;
}
Doubles doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

/// The attention of one layer on rows that are given, as M.2 and M.7 have it.
struct Layer {
  Layer(LanguageModelConfig of, const Tensors& tensors)
      : config(std::move(of)),
        stored(tensors),
        attention(config, 0, {.weights = stored.weights, .initializer_range = 0.3}),
        state(attention.start(DType::f32, 1)),
        output(det({8, 8}, 2, 0.5)) {}

  /// What follows the output projection.
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
           {"layers.0.compression.weight", det({8, 8, 2}, 8, 0.4)}}};
}

TEST(Compressive, AttentionIsThatOfTheGoldenVectors) {
  const Doubles newest = {0.520248808, -0.211116885, -0.605964357, -0.034910487,
                          0.591790337, 0.275183109,  -0.480063302, -0.470093498};
  const std::vector<CompressiveCase> cases = {
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
  };
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

/// Tensors in the order of M.8: number t is det(shape, t, 0.3), gains + 1.
Tensors golden_tensors(const LanguageModelConfig& config) {
  std::vector<std::pair<std::string, Shape>> names = {{"embedding.weight", {27, 8}},
                                                      {"output.bias", {27}},
                                                      {"relative_content", {2, 4}},
                                                      {"relative_position", {2, 4}}};
  const bool compresses = config.is_compressive();
  if (compresses) names.push_back({"compressed_relative_position", {2, 4}});
  for (int layer = 0; layer < 2; ++layer) {
    const auto add = [&](const char* name, const Shape& shape) {
      names.push_back({fmt::format("layers.{}.{}", layer, name), shape});
    };
    for (const char* norm : {"attention_norm", "feed_forward_norm"}) {
      add(fmt::format("{}.weight", norm).c_str(), {8});
      add(fmt::format("{}.bias", norm).c_str(), {8});
    }
    add("query_key_value.weight", {24, 8});
    add("attention_output.weight", {8, 8});
    add("relative_key.weight", {8, 8});
    if (compresses) add("compressed_relative_key.weight", {8, 8});
    if (compresses) add("compression.weight", {8, 8, 2});
    add("up.weight", {12, 8});
    add("up.bias", {12});
    add("down.weight", {8, 12});
    add("down.bias", {8});
  }
  if (!config.post_norm)
    names.insert(names.end(), {{"final_norm.weight", {8}}, {"final_norm.bias", {8}}});
  Tensors tensors;
  for (std::size_t t = 0; t < names.size(); ++t) {
    Tensor tensor = det(names[t].second, static_cast<double>(t), 0.3);
    if (names[t].first.ends_with("norm.weight")) {
      std::vector<float> gains = tensor.to_floats();
      for (float& gain : gains) gain += 1;
      tensor = Tensor::from(gains, names[t].second);
    }
    tensors.emplace_back(names[t].first, tensor);
  }
  return tensors;
}

struct Whole {
  explicit Whole(const LanguageModelConfig& config, bool trained = false)
      : stored(golden_tensors(config), trained), model(config, stored.weights, DType::f32) {}

  Doubles logits(const Tensor& hidden) {
    return doubles(model.logits(context, hidden).to_floats());
  }

  Stored stored;
  LanguageModel model;
  MemoryPool memory;
  ops::Context context = {.memory = memory, .threads = 2};
};

std::vector<std::int32_t> fox() {
  return text::encode_characters(text::Alphabet::text8, "the quick brown fox jumps over");
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
       {1.370875148, 0.606934986, 0.962808081, 0.65308865}}};
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

std::string fixture(const std::string& name) {
  const auto root = std::filesystem::path(__FILE__).parent_path();
  return (root / "fixtures" / "memory_lm" / name).string();
}

/// A model of tests/fixtures/make_memory_lm.py, and two streams of three segments.
struct OfPyTorch {
  explicit OfPyTorch(const std::string& name)
      : weights(Weights::trained(Weights::open(fixture(name), {}), {})),
        model(read_language_model(fixture(name) + "/config.json"), weights, DType::f32),
        expected(formats::SafetensorsFile::open(fixture(name) + "/expected.safetensors")),
        ids(text::encode_characters(text::Alphabet::text8,
                                    "the quick brown fox jumps over the lazy dog")) {}

  /// Rows of a segment of both streams, from a place of the text on.
  std::vector<std::int32_t> segment(Index number, Index shift) const {
    std::vector<std::int32_t> rows;
    for (Index s = 0; s < 2; ++s) {
      const auto begin = ids.begin() + s * 18 + number * 6 + shift;
      rows.insert(rows.end(), begin, begin + 6);
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

class MemoryFixture : public testing::TestWithParam<std::string> {};

TEST_P(MemoryFixture, LogitsLossesAndGradientsAreThoseOfPyTorch) {
  OfPyTorch of(GetParam());
  State state = of.model.start(DType::f32, 2);
  for (const Index number : {0, 1}) {
    of.model.forward(of.context, segments_of(of.segment(number, 0), 6), {.state = &state});
  }
  State same = state;
  const Tensor hidden =
      of.model.forward(of.context, segments_of(of.segment(2, 0), 6), {.state = &same});
  EXPECT_LE(
      difference(doubles(of.model.logits(of.context, hidden).to_floats()), of.wanted("logits")),
      1e-5);
  Tape tape;
  of.context.tape = &tape;
  NamedLosses losses;
  const ops::LossSum loss =
      of.model.loss(of.context, segments_of(of.segment(2, 0), 6), of.segment(2, 1),
                    {.scale = 1.0 / 12}, {.state = &state, .losses = &losses});
  EXPECT_LE(difference({loss.sum / 12}, of.wanted("loss")), 1e-5);
  double auxiliary = 0;
  for (const auto& [name, value] : losses) auxiliary += doubles(value.to_floats())[0] / 2;
  EXPECT_LE(std::abs(auxiliary - of.wanted("auxiliary")[0]), 1e-5 * (1 + auxiliary));
  tape.backward();
  std::size_t compared = 0;
  for (const auto& [name, value] : of.weights.parameters()) {
    const Doubles wanted = of.wanted("gradient." + name);
    ASSERT_FALSE(value.gradient()->sum.empty()) << name;
    EXPECT_LE(difference(doubles(value.gradient()->sum.to_floats()), wanted), 2e-5) << name;
    ++compared;
  }
  EXPECT_EQ(compared + 3, of.expected.tensors().size());
}

/// What was read in pieces, with the state written to disk between them, is what is read at once;
/// and streams know nothing of each other.
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
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 9 * 12, after.begin()));
  EXPECT_FALSE(
      std::equal(before.begin() + 9 * 12, before.begin() + 10 * 12, after.begin() + 9 * 12));
}

INSTANTIATE_TEST_SUITE_P(Models, MemoryFixture,
                         testing::Values("recurrent", "recurrent_post", "recurrent_same_length",
                                         "compressive", "compressive_shared", "compressive_max"));

/// Each law of spec.md G.3 makes two models the same.
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
}  // namespace longformer::models
