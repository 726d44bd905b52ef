// Reformers against what `transformers` computes in double precision
// (tests/fixtures/make_reformer.py), and what holds for them by themselves.
//
// Reruns: tsan
#include "models/convert/reformer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "error_testing.h"
#include "fixtures.h"
#include "memory_lm_testing.h"
#include "models/hash_rotations.h"

namespace longformer::models::reformer_test {
namespace {

constexpr Index kSymbols = 27;

std::vector<std::int32_t> ids_of(Index length, Index shift = 0) {
  std::vector<std::int32_t> ids;
  for (Index i = 0; i < length; ++i) {
    ids.push_back(static_cast<std::int32_t>((5 * i * i + 3 * i + shift) % kSymbols));
  }
  return ids;
}

/// A folder of transformers, converted.
struct OfTransformers {
  explicit OfTransformers(const std::string& name, DType dtype = DType::f32)
      : source((fixtures_folder() / "reformer" / name).string()),
        weights((convert_reformer(source, folder.path(), {}),
                 Weights::trained(Weights::open(folder.name(), {}), {}))),
        model(read_language_model(folder.name() + "/config.json"), weights, dtype),
        expected(formats::SafetensorsFile::open(source + "/expected.safetensors")) {
    context.dtype = dtype;
  }

  Doubles wanted(const std::string& name) const {
    return doubles(expected.tensors().at(name).to_floats());
  }
  bool has(const std::string& name) const { return expected.tensors().count(name) > 0; }
  Doubles logits(const Tensor& hidden) const {
    return doubles(model.logits(context, hidden).to_floats());
  }
  /// The loss and its gradients of two whole texts.
  std::map<std::string, Doubles> gradients(double& loss) {
    std::vector<std::int32_t> ids, labels;
    for (const Index shift : {0, 4}) {
      const auto text = ids_of(33, shift);
      ids.insert(ids.end(), text.begin(), text.end() - 1);
      labels.insert(labels.end(), text.begin() + 1, text.end());
    }
    Tape tape;
    context.tape = &tape;
    const ops::LossSum sum = model.loss(context, segments_of(ids, 32), labels, {.scale = 1.0 / 64});
    tape.backward();
    context.tape = nullptr;
    loss = sum.sum / 64;
    std::map<std::string, Doubles> found;
    for (const auto& [name, value] : weights.parameters()) {
      found[name] = doubles(value.gradient()->take().to_floats());
    }
    return found;
  }

  TemporaryFolder folder;
  std::string source;
  Weights weights;
  LanguageModel model;
  formats::SafetensorsFile expected;
  MemoryPool memory;
  ops::Context context = {.memory = memory, .threads = 2};
};

/// The call throws an Error with these words.
template <typename Call>
void expect_refused(const Call& call, const std::string& part) {
  const std::string message = error_of(call);
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

class ReformerFixture : public testing::TestWithParam<std::string> {};

TEST_P(ReformerFixture, StreamsAndLogitsOfAllLengthsAreThoseOfTransformers) {
  const OfTransformers of(GetParam());
  for (const Index length : {3, 4, 7, 13, 16, 29, 32}) {
    std::vector<Tensor> streams;
    const Tensor hidden = of.model.forward(of.context, segments_of(ids_of(length), length),
                                           {.hidden_states = &streams});
    Doubles all;
    for (const Tensor& stream : streams) {
      const Doubles numbers = doubles(stream.to_floats());
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    EXPECT_LE(difference(all, of.wanted(fmt::format("streams.{}", length))), 2e-6) << length;
    EXPECT_LE(difference(of.logits(hidden), of.wanted(fmt::format("logits.{}", length))), 5e-6)
        << length;
  }
}

TEST_P(ReformerFixture, DocumentsOfABatchDoNotSeeEachOther) {
  const OfTransformers of(GetParam());
  Batch batch;
  batch.starts = {0};
  Doubles wanted;
  for (const Index length : {13, 3, 32}) {
    const auto ids = ids_of(length);
    batch.ids.insert(batch.ids.end(), ids.begin(), ids.end());
    batch.starts.push_back(batch.rows());
    const Doubles alone = of.wanted(fmt::format("logits.{}", length));
    wanted.insert(wanted.end(), alone.begin(), alone.end());
  }
  EXPECT_LE(difference(of.logits(of.model.forward(of.context, batch)), wanted), 5e-6);
}

TEST_P(ReformerFixture, LossAndGradientsAreThoseOfTransformers) {
  OfTransformers of(GetParam());
  double loss = 0;
  const auto gradients = of.gradients(loss);
  EXPECT_LE(difference({loss}, of.wanted("loss")), 1e-6);
  std::size_t compared = 0;
  for (const auto& [name, found] : gradients) {
    // transformers leaves the bias of its head unused.
    if (name == "output.bias") continue;
    EXPECT_LE(difference(found, of.wanted("gradient." + name)), 5e-5) << name;
    ++compared;
  }
  std::size_t stored = 0;
  for (const auto& [name, tensor] : of.expected.tensors()) stored += name.starts_with("gradient.");
  EXPECT_EQ(compared, stored);
}

TEST_P(ReformerFixture, WritesGreedilyWhatTransformersWrites) {
  const OfTransformers of(GetParam());
  for (const Index prompt : {2, 11}) {
    const std::string name = fmt::format("written.{}", prompt);
    if (!of.has(name)) continue;
    const Doubles wanted = of.wanted(name);
    Doubles written;
    std::vector<std::int32_t> next = ids_of(prompt);
    State state = of.model.start(DType::f32);
    for (const std::int32_t id : next) written.push_back(id);
    while (written.size() < wanted.size()) {
      const Tensor hidden =
          of.model.forward(of.context, segments_of(next, std::ssize(next)), {.state = &state});
      const Doubles logits = of.logits(hidden.slice_rows(hidden.rows() - 1, 1));
      next = {static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) -
                                        logits.begin())};
      written.push_back(next[0]);
    }
    EXPECT_EQ(written, wanted) << prompt;
  }
}

/// A copied and reordered state goes on as the first; tokens one by one are those of a piece.
TEST_P(ReformerFixture, StatesGoOn) {
  const OfTransformers of(GetParam());
  const auto ids = ids_of(24);
  const std::span<const std::int32_t> all(ids);
  State state = of.model.start(DType::f32);
  of.model.forward(of.context, segments_of(all.first(10), 10), {.state = &state});
  State twice = state;
  const std::vector<Index> sources = {0, 0};
  twice.reorder(sources);
  const Tensor piece =
      of.model.forward(of.context, segments_of(all.subspan(10), 14), {.state = &state});
  std::vector<std::int32_t> both(all.begin() + 10, all.end());
  both.insert(both.end(), all.begin() + 10, all.end());
  const Tensor of_both = of.model.forward(of.context, segments_of(both, 14), {.state = &twice});
  Doubles wanted = doubles(piece.to_floats());
  wanted.insert(wanted.end(), wanted.begin(), wanted.begin() + piece.size());
  EXPECT_LE(difference(doubles(of_both.to_floats()), wanted), 1e-6);
  EXPECT_EQ(state.tokens(0), 24);
  EXPECT_GT(state.bytes(), 0);
}

TEST_P(ReformerFixture, Bf16KeepsTheLayersAndComesNear) {
  OfTransformers exact(GetParam()), rounded(GetParam(), DType::bf16);
  double loss = 0, near = 0;
  exact.gradients(loss);
  const auto gradients = rounded.gradients(near);
  // A token whose hash is near two buckets may change its place.
  EXPECT_LE(std::abs(near - loss), 0.1 * loss);
  for (const auto& [name, found] : gradients) {
    EXPECT_FALSE(found.empty()) << name;
    EXPECT_TRUE(std::isfinite(std::accumulate(found.begin(), found.end(), 0.0))) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReformerFixture,
                         testing::Values("local", "lsh", "mixed", "factored", "unset", "learned"),
                         [](const auto& info) { return info.param; });

/// Numbers of torch 2, torch.manual_seed(SEED); torch.randn(SIZE).
TEST(Rotations, AreThoseOfTorch) {
  const auto expect = [](Index size, std::uint64_t seed, const Doubles& first, double last) {
    const auto found = torch_normals({size}, seed).to_floats();
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(found[i], first[i], 2e-6) << i;
    EXPECT_NEAR(found.back(), last, 2e-6) << size;
  };
  expect(3, 5, {-0.4867808, -0.6038216, -0.5580962}, -0.5580962);
  expect(15, 0, {1.540996, -0.2934289, -2.178789}, -1.071187);
  expect(16, 7, {-0.8201345, 0.3956312, 0.8989085}, 1.090165);
  expect(40, 123456, {-1.121837, -1.844543, 1.025799}, -0.9565986);
  expect(4097, 0, {-1.12584, -1.15236, -0.2505786}, 1.322924);
}

TEST(Reformer, BucketsFollowTheLengthWhereTheyAreNotSet) {
  ReformerConfig config;
  config.layers = {ChunkLayer::lsh};
  config.lsh.length = 64;
  config.longest = 65536;
  EXPECT_EQ(config.buckets_for(64 * 5), std::vector<Index>{8});
  EXPECT_EQ(config.buckets_for(64 * 64), std::vector<Index>{128});
  EXPECT_EQ(config.buckets_for(65536), (std::vector<Index>{32, 64}));
  config.buckets = {6};
  EXPECT_EQ(config.buckets_for(65536), std::vector<Index>{6});
}

TEST(Reformer, TextsArePaddedToWholeChunksOfAllLayers) {
  ReformerConfig config;
  config.layers = {ChunkLayer::lsh, ChunkLayer::local};
  config.lsh.length = 6;
  config.local.length = 4;
  EXPECT_EQ(config.padded(3), 3);
  EXPECT_EQ(config.padded(4), 4);
  EXPECT_EQ(config.padded(5), 12);
  EXPECT_EQ(config.padded(25), 36);
}

nlohmann::ordered_json small_config() {
  return {{"model_type", "longformer-lm"},   {"attention", "reformer"},
          {"vocabulary", "text8"},           {"hidden_size", 8},
          {"num_hidden_layers", 2},          {"num_attention_heads", 2},
          {"attn_layers", {"local", "lsh"}}, {"local_attn_chunk_length", 4},
          {"lsh_attn_chunk_length", 4},      {"axial_pos_shape", {4, 8}},
          {"axial_pos_embds_dim", {2, 6}}};
}

LanguageModelConfig parsed(const nlohmann::ordered_json& json) {
  return parse_language_model(formats::ConfigReader(json, "config.json"));
}

TEST(Reformer, ConfigurationsThatDoNotFitAreRefusedWithTheNumbers) {
  const auto refused = [](const std::string& key, const nlohmann::ordered_json& value,
                          const std::string& part) {
    auto json = small_config();
    json[key] = value;
    expect_refused([&] { parsed(json); }, part);
  };
  refused("axial_pos_embds_dim", {3, 6}, "the hidden_size of 8, found 3 + 6 = 9");
  refused("axial_pos_shape", {4}, "axial_pos_shape: expected two numbers");
  refused("num_buckets", 7, "num_buckets: expected even numbers from 2");
  refused("num_buckets", {4, 5}, "found 5");
  refused("num_buckets", {2, 2, 2}, "expected null, a number or two factors");
  refused("attn_layers", {"local"}, "attn_layers: expected a list of 2 names");
  refused("attn_layers", {"local", "global"}, "expected local or lsh, found \"global\"");
  refused("lsh_attn_chunk_length", 0, "lsh_attn_chunk_length");
  refused("lsh_num_chunks_after", 1, "expected 0, as no token sees those behind it, found 1");
  refused("positions", "relative", "expected axial, learned, sinusoidal or none");
  refused("tie_word_embeddings", true, "tie_word_embeddings: expected false");
  refused("norm_position", "post", "norm_position: expected pre");
  auto other = small_config();
  other["attention"] = "dense";
  other["positions"] = "axial";
  expect_refused([&] { parsed(other); }, "with the attention dense, found axial");
}

TEST(Reformer, ConfigurationsAreWrittenAsTheyAreRead) {
  for (const auto& buckets :
       {nlohmann::ordered_json(), nlohmann::ordered_json(6), nlohmann::ordered_json({4, 2})}) {
    auto json = small_config();
    json["num_buckets"] = buckets;
    json["hash_seed"] = 5;
    const LanguageModelConfig once = parsed(json);
    const auto written = to_json(once);
    EXPECT_EQ(to_json(parsed(written)), written);
    EXPECT_EQ(once.reformer.buckets.size(), buckets.is_array() ? 2u : buckets.is_null() ? 0u : 1u);
    EXPECT_EQ(once.reformer.hash_seed, 5u);
  }
}

TEST(Reformer, LengthsThatDoNotFitAreRefusedWithTheNumbers) {
  OfTransformers of("mixed");
  expect_refused([&] { of.model.forward(of.context, segments_of(ids_of(33), 33)); },
                 "expected at most 32 tokens, as many as there are axial positions, found 33");
  Tape tape;
  of.context.tape = &tape;
  expect_refused([&] { of.model.forward(of.context, segments_of(ids_of(16), 16)); },
                 "expected texts of 32 tokens, as axial_pos_shape is 4 × 8");
}

}  // namespace
}  // namespace longformer::models::reformer_test
