// Routing Transformers: reading token by token against an independent PyTorch version in double
// precision (tests/fixtures/make_pattern_lm.py; pattern_lm_test compares whole texts), centroids in
// a training, and configurations.
//
// Reruns: tsan
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "error_testing.h"
#include "models/attention/routed.h"
#include "pattern_lm_testing.h"
#include "temporary_folder.h"

namespace longformer::models::pattern_lm_test {
namespace {

Doubles logits_of(const Loaded& loaded, const ops::Context& context,
                  std::span<const std::int32_t> ids, const PassOptions& options) {
  const Tensor hidden = loaded.model.forward(context, segments_of(ids, std::ssize(ids)), options);
  return doubles(loaded.model.logits(context, hidden).to_floats());
}

class RoutingFixture : public testing::TestWithParam<std::string> {};

TEST_P(RoutingFixture, ReadTokenByTokenGivesWhatPyTorchGives) {
  Loaded loaded(GetParam());
  const Text text = text_of(kText);
  const ops::Context context = loaded.context();
  State past = loaded.model.start(DType::f32);
  Doubles logits;
  for (const std::int32_t id : text.ids) {
    State copy = past;
    const std::vector<std::int32_t> ids = {id};
    const Doubles next = logits_of(loaded, context, ids, {.state = &past});
    EXPECT_EQ(logits_of(loaded, context, ids, {.state = &copy}), next);
    logits.insert(logits.end(), next.begin(), next.end());
  }
  EXPECT_TRUE(difference(logits, loaded.wanted("streamed")) <= 5e-6)
      << difference(logits, loaded.wanted("streamed"));
  EXPECT_GT(past.bytes(), 0);
}

TEST_P(RoutingFixture, TheBeginningIsReadAsAWhole) {
  Loaded loaded(GetParam());
  const Text text = text_of(kText);
  const ops::Context context = loaded.context();
  for (const Index first : {3, 20}) {
    State past = loaded.model.start(DType::f32), slow = loaded.model.start(DType::f32);
    const std::vector<std::int32_t> ids(text.ids.begin(), text.ids.begin() + first);
    const Doubles whole = logits_of(loaded, context, ids, {});
    EXPECT_TRUE(difference(logits_of(loaded, context, ids, {.state = &past}), whole) <= 5e-6);
    logits_of(loaded, context, ids, {.state = &slow});
    // Several tokens that go on are read one by one.
    const std::vector<std::int32_t> more(text.ids.begin() + first, text.ids.begin() + first + 5);
    const Doubles together = logits_of(loaded, context, more, {.state = &past});
    Doubles apart;
    for (const std::int32_t id : more) {
      const std::vector<std::int32_t> one = {id};
      const Doubles next = logits_of(loaded, context, one, {.state = &slow});
      apart.insert(apart.end(), next.begin(), next.end());
    }
    EXPECT_EQ(together, apart);
  }
}

TEST_P(RoutingFixture, StreamsAndDocumentsDoNotSeeEachOther) {
  Loaded loaded(GetParam());
  const Text text = text_of(kText);
  const ops::Context context = loaded.context();
  const std::vector<std::int32_t> first(text.ids.begin(), text.ids.begin() + 13),
      second(text.ids.begin() + 20, text.ids.begin() + 33);
  std::vector<std::int32_t> both = first;
  both.insert(both.end(), second.begin(), second.end());
  State streams = loaded.model.start(DType::f32, 2), one = loaded.model.start(DType::f32);
  const auto rows = [&](const PassOptions& options, Index count) {
    return doubles(loaded.model.forward(context, segments_of(both, count), options).to_floats());
  };
  Doubles wanted =
      doubles(loaded.model.forward(context, segments_of(second, 13), {.state = &one}).to_floats());
  const auto tail = [&](const Doubles& all) {
    return Doubles(all.end() - std::ssize(wanted), all.end());
  };
  EXPECT_TRUE(difference(tail(rows({}, 13)), wanted) <= 5e-6);
  EXPECT_TRUE(difference(tail(rows({.state = &streams}, 13)), wanted) <= 5e-6);
  // The other way round, and one token further.
  const std::vector<Index> turned = {1, 0};
  streams.reorder(turned);
  both = {7, 3};
  wanted = doubles(
      loaded.model.forward(context, segments_of(std::vector<std::int32_t>{7}, 1), {.state = &one})
          .to_floats());
  Doubles found = rows({.state = &streams}, 1);
  found.resize(wanted.size());
  EXPECT_TRUE(difference(found, wanted) <= 5e-6);
}

INSTANTIATE_TEST_SUITE_P(Routing, RoutingFixture,
                         testing::Values("routing", "routing_self", "routing_unit"),
                         [](const auto& of) { return of.param; });

Json small_routing(const Json& changes) {
  Json json = {{"model_type", "longformer-lm"},
               {"attention", "routing"},
               {"vocabulary", "text8"},
               {"hidden_size", 16},
               {"num_hidden_layers", 2},
               {"num_attention_heads", 4},
               {"clusters", 4},
               {"local_window", 5}};
  json.update(changes);
  return json;
}

/// The largest of three lists, against a stable sort.
void expect_largest(const std::vector<float>& scores, Index size) {
  const Index count = std::ssize(scores) / 3;
  const auto found = kernels::largest_scores(Tensor::from(scores, {1, 3, count}), size, 2);
  ASSERT_EQ(std::ssize(found), 3);
  for (Index list = 0; list < 3; ++list) {
    std::vector<Index> order(at(count));
    std::iota(order.begin(), order.end(), 0);
    const auto value = [&](Index i) {
      const float score = scores[at(list * count + i)];
      return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](Index a, Index b) { return value(a) > value(b); });
    std::sort(order.begin(), order.begin() + size);
    ASSERT_EQ(std::ssize(found[at(list)]), size);
    for (Index i = 0; i < size; ++i) ASSERT_EQ(found[at(list)][at(i)].token, order[at(i)]);
  }
}

TEST(Routing, TheLargestScoresAreThoseOfASort) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // Ties, distinct numbers, large ones where a sample looks or does not, and few numbers at all.
  const std::vector<std::function<float(Index)>> kinds = {
      [](Index i) { return i % 11 == 5 ? kNan : static_cast<float>(i * 37 % 13); },
      [](Index i) { return std::sin(static_cast<float>(i * i % 100003)); },
      [](Index i) { return static_cast<float>(i % 4 == 0 ? i : -i); },
      [](Index i) { return static_cast<float>(i % 4 == 1 ? i : -i); },
      [](Index i) { return i % 1000 == 7 ? 1.0f : kNan; },
      [](Index i) { return i % 3 == 0   ? kInfinity
                           : i % 3 == 1 ? -kInfinity
                                        : kNan; }};
  for (const auto& kind : kinds) {
    for (const Index count : {1, 2, 7, 64, 129, 16384, 20011}) {
      std::vector<float> scores;
      for (Index i = 0; i < 3 * count; ++i) scores.push_back(kind(i));
      for (const Index size : {Index{1}, std::min<Index>(128, count), (count + 1) / 2, count}) {
        expect_largest(scores, size);
      }
    }
  }
}

TEST(Routing, PairsAreThoseOfClustersAndWindows) {
  const LanguageModelConfig config = parsed(small_routing({{"cluster_size", 3}}));
  for (const Index n : {1, 3, 4, 20}) {
    double near = 0;
    for (Index i = 0; i < n; ++i) near += static_cast<double>(std::min<Index>(i, 5) + 1);
    const double clusters = n <= 3 ? 1 : 4, size = static_cast<double>(std::min<Index>(n, 3));
    EXPECT_EQ(routed_pairs(config, n), 2 * near + 2 * clusters * size * (size + 1) / 2) << n;
  }
}

TEST(Routing, OtherTypesAndThreadsGiveTheSame) {
  for (const Json& changes : {Json{{"positions", "learned"}}, Json{{"routing_norm", "unit"}},
                              Json{{"routing_self", true}, {"cluster_size", 6}}}) {
    Json json = small_routing(changes);
    json["initializer_range"] = 0.2;
    const LanguageModelConfig config = parsed(json);
    const Weights weights = Weights::drawn(3);
    const auto logits = [&](DType dtype, int threads) {
      const LanguageModel model(config, weights, dtype);
      MemoryPool memory;
      const ops::Context context = {.memory = memory, .dtype = dtype, .threads = threads};
      const auto ids = text_of("the quick brown fox jumps").ids;
      const Tensor hidden = model.forward(context, segments_of(ids, std::ssize(ids)));
      return doubles(model.logits(context, hidden).to_floats());
    };
    const Doubles wanted = logits(DType::f32, 1);
    EXPECT_EQ(logits(DType::f32, 3), wanted);
    // Rounding may send a token to another cluster.
    const Doubles rounded = logits(DType::bf16, 2);
    double sum = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) sum += std::abs(rounded[i] - wanted[i]);
    EXPECT_TRUE(sum / static_cast<double>(wanted.size()) <= 3e-2);
  }
}

TEST(Routing, StatesAreNotKeptInFiles) {
  const Loaded loaded("routing");
  State state = loaded.model.start(DType::f32);
  const TemporaryFolder folder;
  EXPECT_NE(error_of([&] { state.save(folder.path()); }).find("attention routing"),
            std::string::npos);
}

TEST(Routing, ConfigurationsThatDoNotFitAreRefused) {
  const auto refused = [](const Json& changes) {
    return error_of([&] { parsed(small_routing(changes)); });
  };
  EXPECT_EQ(refused(Json::object()), "");
  EXPECT_EQ(refused({{"clusters", 0}}),
            "config.json: clusters: expected an integer from 1 to 65536, found 0");
  EXPECT_EQ(refused({{"local_heads", 4}}),
            "config.json: local_heads: expected fewer than the 4 heads, as the others are routed, "
            "found 4");
  EXPECT_EQ(refused({{"centroid_decay", 1}}),
            "config.json: centroid_decay: expected a number from 0 to below 1, found 1");
  EXPECT_EQ(refused({{"commitment_loss", -1}}),
            "config.json: commitment_loss: expected a number from 0 to 1, found -1");
  EXPECT_NE(refused({{"routing_norm", "none"}}), "");
  EXPECT_NE(refused({{"cluster_size", -1}}), "");
  EXPECT_NE(refused({{"positions", "relative"}}), "");
  EXPECT_NE(refused({{"positions", "infused"}}), "");
  EXPECT_NE(refused({{"positions", "grid"}}), "");
  for (const char* norm : {"layer", "unit"}) {
    const Json written =
        to_json(parsed(small_routing({{"routing_norm", norm}, {"routing_self", true}})));
    EXPECT_EQ(to_json(parsed(written)), written);
  }
}

}  // namespace
}  // namespace longformer::models::pattern_lm_test
