// Edges between tokens: lists, batches, the key of config.json, and encoders with them
// (docs/spec/other-attentions.md#edges).
#include "models/edges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/memory.h"
#include "error_testing.h"
#include "formats/json.h"
#include "models/batch.h"
#include "models/encoder.h"

namespace longformer::models::edges_test {
namespace {

using Json = nlohmann::ordered_json;

EncoderConfig config_of(const Json& further, const char* type = "longformer") {
  Json json = {{"model_type", type},
               {"vocab_size", 30},
               {"hidden_size", 12},
               {"num_hidden_layers", 2},
               {"num_attention_heads", 3},
               {"intermediate_size", 16},
               {"max_position_embeddings", 60},
               {"initializer_range", 0.3},
               {"attention_window", 4}};
  json.update(further);
  return parse_config(formats::ConfigReader(json, "config.json"));
}

const Json kBoth = {{"edges", {"names", "titles"}}};

TEST(EdgeLists, AreSortedAndTheFirstKindCounts) {
  const auto lists = edge_lists({{3, 1, 1}, {0, 2, 1}, {3, 1, 0}, {3, 0, 1}, {3, 0, 1}}, 5);
  EXPECT_EQ(lists->begin, (std::vector<Index>{0, 1, 1, 1, 3, 3}));
  EXPECT_EQ(lists->key, (std::vector<std::int32_t>{2, 0, 1}));
  EXPECT_EQ(lists->label, (std::vector<std::int32_t>{1, 1, 0}));
}

TEST(EdgeLists, KeysInWindowsAreLeftOut) {
  const auto rows = kernels::self_attention_rows(std::array<Index, 3>{0, 4, 16});
  for (const Index dilation : {1, 2, 3}) {
    const kernels::HeadPattern window = {.reach_left = 1, .reach_right = 2, .dilation = dilation};
    std::vector<Edge> all;
    for (const auto& [begin, end] : {std::pair{0, 4}, std::pair{4, 16}}) {
      for (std::int32_t i = begin; i < end; ++i) {
        for (std::int32_t j = begin; j < end; ++j) all.push_back({i, j, 0});
      }
    }
    const auto lists = edges_beyond_windows(*edge_lists(all, 16), window, rows);
    std::vector<Edge> expected;
    for (const Edge& edge : all) {
      const Index distance = edge.key - edge.query;
      const bool is_seen =
          distance % dilation == 0 && distance >= -dilation && distance <= 2 * dilation;
      if (!is_seen) expected.push_back(edge);
    }
    std::vector<Edge> found;
    for (std::int32_t i = 0; i < 16; ++i) {
      for (Index e = lists->begin[at(i)]; e < lists->begin[at(i + 1)]; ++e) {
        found.push_back({i, lists->key[at(e)], lists->label[at(e)]});
      }
    }
    EXPECT_EQ(found, expected) << dilation;
  }
}

TEST(EdgeConfig, HasKindsThatAreKnown) {
  EXPECT_EQ(config_of(kBoth).edges, (std::vector<std::string>{"names", "titles"}));
  EXPECT_TRUE(config_of(Json::object()).edges.empty());
  for (const Json& wrong : {Json{"names", "names"}, Json{"chains"}, Json("names"), Json{1}}) {
    expect_error(error_of([&] { config_of({{"edges", wrong}}); }), {"config.json", "edges"});
  }
  expect_error(error_of([&] { config_of({{"edges", {"chains"}}}); }), {"names and titles"});
  expect_error(error_of([&] {
                 config_of({{"edges", {"names"}}, {"attention_dilation", {1, {1, 2, 2}}}});
               }),
               {"attention_dilation", "layer 1"});
  const EncoderConfig dense = config_of(kBoth, "bert");
  EXPECT_TRUE(dense.edges.empty());
  EXPECT_NE(dense.unused_keys.find("edges"), std::string::npos);
}

TEST(EdgeBatches, LeaveOutMaskedAndGlobalTokens) {
  const EncoderConfig config = config_of(kBoth);
  BatchBuilder builder(config);
  const std::vector<std::int32_t> ids(6, 9), mask = {1, 1, 1, 0, 1, 1};
  const std::vector<Index> globals = {0};
  const std::vector<Edge> edges = {{0, 5, 0}, {5, 0, 0}, {1, 3, 0},
                                   {3, 1, 1}, {5, 1, 1}, {1, 5, 0}};
  builder.add({.ids = ids}, "a");
  builder.add({.ids = ids, .mask = mask, .globals = globals, .edges = edges}, "b");
  const Batch batch = builder.finish();
  EXPECT_EQ(batch.edges, (std::vector<Edge>{{11, 7, 1}, {7, 11, 0}}));
  const auto refused = [&](const EncoderConfig& of, const Edge& edge) {
    return error_of([&] { BatchBuilder(of).add({.ids = ids, .edges = {&edge, 1}}, "text"); });
  };
  expect_error(refused(config, {6, 0, 0}), {"text", "0 to 5", "from 6 to 0"});
  expect_error(refused(config, {0, -1, 0}), {"text", "from 0 to -1"});
  expect_error(refused(config, {0, 1, 2}), {"text", "kinds from 0 to 1", "kind 2"});
  expect_error(refused(config_of(Json::object()), {0, 1, 0}), {"text", "no edges", "found 1"});
}

/// A model whose weights are drawn; keys of kinds are zero.
class EdgeEncoder : public testing::Test {
 protected:
  EncoderConfig config_ = config_of(kBoth);
  Encoder encoder_ = Encoder(config_, Weights::drawn(3), DType::f32);
  MemoryPool memory_;

  Tensor run(const std::vector<Edge>& edges, const std::vector<Index>& globals = {},
             DType dtype = DType::f32) {
    BatchBuilder builder(config_);
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < 20; ++i) ids.push_back(i + 5);
    builder.add({.ids = ids, .globals = globals, .edges = edges}, "text");
    return encoder_.forward({.memory = memory_, .dtype = dtype, .threads = 2}, builder.finish());
  }
};

TEST_F(EdgeEncoder, WithoutEdgesIsTheModelWithoutThem) {
  const Encoder plain(config_of(Json::object()), Weights::drawn(3), DType::f32);
  BatchBuilder builder(config_);
  const std::vector<std::int32_t> ids(20, 7);
  builder.add({.ids = ids}, "text");
  const Batch batch = builder.finish();
  const ops::Context context = {.memory = memory_, .threads = 2};
  EXPECT_TRUE(plain.forward(context, batch).equals(encoder_.forward(context, batch)));
  // Keys that every query sees already.
  EXPECT_TRUE(run({}).equals(run({{4, 5, 0}, {4, 2, 1}})));
  EXPECT_TRUE(run({}, {0}).equals(run({{9, 0, 0}, {0, 9, 1}}, {0})));
}

TEST_F(EdgeEncoder, SeesAlongEdgesOneWay) {
  const auto near = run({}).to_floats(), linked = run({{19, 0, 1}}).to_floats();
  const auto differs = [&](Index row) {
    const auto begin = near.begin() + row * 12;
    return !std::equal(begin, begin + 12, linked.begin() + row * 12);
  };
  // Two layers of reach 2: the last rows know of the edge, the first one does not.
  EXPECT_TRUE(differs(19));
  EXPECT_TRUE(differs(17));
  EXPECT_FALSE(differs(0));
  EXPECT_FALSE(differs(15));
}

TEST_F(EdgeEncoder, AllPairsAreTheAttentionThatSeesEverything) {
  std::vector<Edge> all;
  for (std::int32_t i = 0; i < 20; ++i) {
    for (std::int32_t j = 0; j < 20; ++j) all.push_back({i, j, 0});
  }
  const Encoder wide(config_of({{"attention_window", 40}}), Weights::drawn(3), DType::f32);
  BatchBuilder builder(config_);
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 20; ++i) ids.push_back(i + 5);
  builder.add({.ids = ids}, "text");
  const auto expected =
      wide.forward({.memory = memory_, .threads = 2}, builder.finish()).to_floats();
  const auto found = run(all).to_floats();
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(std::abs(found[i] - expected[i]) <= 1e-5f) << i;
  }
}

TEST(EdgeWeights, HaveATableInEachLayer) {
  std::vector<std::string> names;
  for (const WeightRecord& tensor : encoder_tensors(config_of(kBoth))) {
    if (!tensor.name.ends_with(kEdgeTable)) continue;
    names.push_back(tensor.name);
    EXPECT_EQ(tensor.shape, (Shape{3, 2, 4}));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"encoder.layer.0.attention.self.edge_keys",
                                             "encoder.layer.1.attention.self.edge_keys"}));
}

}  // namespace
}  // namespace longformer::models::edges_test
