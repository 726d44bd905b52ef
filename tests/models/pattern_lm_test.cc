// Sparse Transformers, spans that heads learn and clusters of tokens against an independent PyTorch
// version of them in double precision with dense masks (tests/fixtures/make_pattern_lm.py): logits,
// loss, gradients; and reading piece by piece.
//
// Reruns: tsan
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "error_testing.h"
#include "models/attention/sparse.h"
#include "pattern_lm_testing.h"
#include "temporary_folder.h"

namespace longformer::models::pattern_lm_test {
namespace {

class PatternLmFixture : public testing::TestWithParam<std::string> {};

TEST_P(PatternLmFixture, LogitsAreThoseOfPyTorch) {
  for (const bool trained : {false, true}) {
    Loaded loaded(GetParam(), trained);
    const Text text = text_of(kText);
    const auto n = std::ssize(text.ids);
    const ops::Context context = loaded.context();
    const Tensor hidden = loaded.model.forward(context, segments_of(text.ids, n));
    const Doubles logits = doubles(loaded.model.logits(context, hidden).to_floats());
    EXPECT_TRUE(difference(logits, loaded.wanted("logits")) <= 2e-6)
        << difference(logits, loaded.wanted("logits"));
  }
}

TEST_P(PatternLmFixture, GradientsAreThoseOfPyTorch) {
  for (const bool recomputes : {false, true}) {
    Loaded loaded(GetParam(), true);
    const Text text = text_of(kText);
    Tape tape;
    ops::Context context = loaded.context();
    context.tape = &tape;
    context.recomputes = recomputes;
    const ops::LossSum loss = loaded.model.loss(
        context, segments_of(text.ids, std::ssize(text.ids)), text.labels, {.scale = 1});
    EXPECT_TRUE(std::abs(loss.sum / loaded.wanted("loss")[0] - 1) <= 2e-6);
    tape.backward();
    std::size_t compared = 0;
    for (const auto& [name, value] : loaded.weights.parameters()) {
      ASSERT_FALSE(value.gradient()->sum.empty()) << name;
      const double here =
          difference(doubles(value.gradient()->sum.to_floats()), loaded.wanted("gradient." + name));
      EXPECT_TRUE(here <= 2e-5) << name << ": " << here;
      ++compared;
    }
    std::size_t stored = 0;
    for (const auto& [name, tensor] : loaded.expected.tensors()) {
      stored += name.starts_with("gradient.");
    }
    EXPECT_EQ(compared, stored);
  }
}

/// Models that read a text piece by piece as they read it at once.
class PieceFixture : public testing::TestWithParam<std::string> {};

TEST_P(PieceFixture, ReadPieceByPieceGivesTheSame) {
  Loaded loaded(GetParam());
  const Text text = text_of(kText);
  const auto n = std::ssize(text.ids);
  const ops::Context context = loaded.context();
  const auto logits_of = [&](std::span<const std::int32_t> ids, const PassOptions& options) {
    const Tensor hidden = loaded.model.forward(context, segments_of(ids, std::ssize(ids)), options);
    return loaded.model.logits(context, hidden).to_floats();
  };
  const Doubles whole = doubles(logits_of(text.ids, {}));
  for (const Index piece : {1, 4, 7, 33}) {
    State past = loaded.model.start(DType::f32);
    Doubles logits;
    for (Index begin = 0; begin < n; begin += piece) {
      const std::span<const std::int32_t> ids(text.ids.data() + begin,
                                              at(std::min(piece, n - begin)));
      // A copy, and what a file has kept, read on alike.
      const TemporaryFolder folder;
      past.save(folder.path());
      State again = loaded.model.start(DType::f32);
      again.restore(folder.path());
      State copy = past;
      const std::vector<float> next = logits_of(ids, {.state = &past});
      EXPECT_EQ(logits_of(ids, {.state = &copy}), next);
      EXPECT_EQ(logits_of(ids, {.state = &again}), next);
      logits.insert(logits.end(), next.begin(), next.end());
    }
    EXPECT_EQ(past.tokens(0), n);
    EXPECT_TRUE(difference(logits, whole) <= 5e-6) << piece << ": " << difference(logits, whole);
  }
}

TEST_P(PieceFixture, StreamsDoNotSeeEachOther) {
  Loaded loaded(GetParam());
  const Text text = text_of(kText);
  const ops::Context context = loaded.context();
  State both = loaded.model.start(DType::f32, 2), one = loaded.model.start(DType::f32);
  const std::vector<std::int32_t> other(text.ids.begin() + 20, text.ids.begin() + 33);
  for (const Index count : {13, 1, 12}) {
    const std::vector<std::int32_t> ids(text.ids.begin(), text.ids.begin() + count);
    Batch batch = segments_of(ids, count);
    const auto alone = loaded.model.forward(context, batch, {.state = &one}).to_floats();
    batch.ids.insert(batch.ids.begin(), other.begin(), other.end());
    batch.starts = {0, std::ssize(other), std::ssize(other) + count};
    const auto beside = loaded.model.forward(context, batch, {.state = &both}).to_floats();
    const Doubles second(beside.end() - std::ssize(alone), beside.end());
    EXPECT_TRUE(difference(second, doubles(alone)) <= 5e-6) << count;
  }
}

class SparseFixture : public testing::TestWithParam<std::string> {};

TEST_P(SparseFixture, PairsAreThoseOfTheMasks) {
  const LanguageModelConfig config = read_language_model(folder_of(GetParam()) + "/config.json");
  const SparseConfig& sparse = config.sparse;
  for (Index layer = 0; layer < 2; ++layer) {
    for (const Index n : {1, 5, 23}) {
      double pairs = 0;
      for (const SparseHeads& group : sparse_heads(sparse, layer, config.heads)) {
        for (Index i = 0; i < n; ++i) {
          for (Index j = 0; j <= i; ++j) {
            const bool is_fixed = sparse.pattern == SparsePattern::fixed;
            const Index column = j % sparse.stride - group.column;
            const bool near =
                is_fixed ? i / sparse.stride == j / sparse.stride : i - j < sparse.stride;
            const bool far =
                is_fixed ? column >= 0 && column < sparse.summary : (i - j) % sparse.stride == 0;
            const bool seen = (near && group.sees_near) || (far && group.sees_far);
            pairs += seen ? static_cast<double>(group.heads.size()) : 0;
          }
        }
      }
      EXPECT_EQ(sparse_pairs(config, layer, n), pairs) << layer << ' ' << n;
    }
  }
}

const auto kSparse = testing::Values("strided_merged", "strided_heads", "fixed_merged",
                                     "fixed_heads", "fixed_interleaved");
const auto kAdaptive = testing::Values("adaptive", "adaptive_ramp", "adaptive_steep");
const auto kName = [](const auto& of) { return of.param; };

INSTANTIATE_TEST_SUITE_P(Sparse, PatternLmFixture, kSparse, kName);
INSTANTIATE_TEST_SUITE_P(Adaptive, PatternLmFixture, kAdaptive, kName);
INSTANTIATE_TEST_SUITE_P(Routing, PatternLmFixture,
                         testing::Values("routing", "routing_self", "routing_unit"), kName);
INSTANTIATE_TEST_SUITE_P(Sparse, PieceFixture, kSparse, kName);
INSTANTIATE_TEST_SUITE_P(Adaptive, PieceFixture, kAdaptive, kName);
INSTANTIATE_TEST_SUITE_P(Sparse, SparseFixture, kSparse, kName);

Json small(const Json& changes) {
  Json json = {{"model_type", "longformer-lm"}, {"attention", "sparse"},
               {"vocabulary", "text8"},         {"hidden_size", 16},
               {"num_hidden_layers", 2},        {"num_attention_heads", 4},
               {"pattern", "strided"},          {"stride", 4}};
  json.update(changes);
  return json;
}

/// Logits of a model whose output layer is not zero, in the given dtype.
Doubles drawn_logits(const Json& json, DType dtype, int threads, std::vector<std::int32_t> ids) {
  const LanguageModelConfig config = parsed(json);
  const Weights weights = Weights::drawn(3);
  const LanguageModel model(config, weights, dtype);
  MemoryPool memory;
  const ops::Context context = {.memory = memory, .dtype = dtype, .threads = threads};
  const Tensor hidden = model.forward(context, segments_of(ids, std::ssize(ids)));
  return doubles(model.logits(context, hidden).to_floats());
}

TEST(SparseTransformer, StridedByLayersIsWhatWindowsAndDilationsDo) {
  const Json same = {{"positions", "sinusoidal"},
                     {"initialization", "normal"},
                     {"initializer_range", 0.3},
                     {"tie_word_embeddings", true}};
  Json sparse = small(same), window = small(same);
  sparse["integration"] = "interleaved";
  window["attention"] = "window";
  for (const char* key : {"pattern", "stride"}) window.erase(key);
  // There are as many steps as strides in the text.
  window["windows"] = {3, 16};
  window["dilations"] = {0, 3};
  window["dilated_heads"] = 4;
  window["hidden_act"] = "quick_gelu";
  window["embedding_scale"] = false;
  const auto ids = text_of(kText).ids;
  const Doubles wanted = drawn_logits(window, DType::f32, 2, ids);
  EXPECT_TRUE(difference(drawn_logits(sparse, DType::f32, 2, ids), wanted) <= 2e-6);
}

TEST(SparseTransformer, EveryTokenReachesAllLaterOnesInTwoLayers) {
  for (const Json& changes :
       {Json{{"integration", "merged"}}, Json{{"integration", "interleaved"}},
        Json{{"pattern", "fixed"}, {"summary", 1}}, Json{{"pattern", "fixed"}, {"summary", 4}}}) {
    Json json = small(changes);
    json.update({{"initialization", "normal"}, {"initializer_range", 0.3}});
    auto ids = text_of("abcdefghijklmnop").ids;
    const Doubles before = drawn_logits(json, DType::f32, 2, ids);
    for (std::size_t changed = 0; changed < ids.size(); ++changed) {
      auto other = ids;
      other[changed] = 26;
      const Doubles after = drawn_logits(json, DType::f32, 2, other);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        double change = 0;
        for (std::size_t v = 0; v < 27; ++v) {
          change = std::max(change, std::abs(after[27 * i + v] - before[27 * i + v]));
        }
        EXPECT_EQ(change > 0, i >= changed) << changes.dump() << ' ' << changed << ' ' << i;
      }
    }
  }
}

TEST(SparseTransformer, NewWeightsBeginAsInThePaper) {
  const LanguageModelConfig config = parsed(small({{"hidden_size", 64}}));
  const Weights weights = Weights::trained(Weights::drawn(1), {});
  const LanguageModel model(config, weights, DType::f32);
  const auto deviation = [&](const std::string& name) {
    for (const auto& [found, value] : weights.parameters()) {
      if (found != name) continue;
      double sum = 0;
      for (const float x : value.to_floats())
        sum += static_cast<double>(x) * static_cast<double>(x);
      return std::sqrt(sum / static_cast<double>(value.size()));
    }
    return std::nan("");
  };
  EXPECT_EQ(deviation("output.weight"), 0);
  EXPECT_NEAR(deviation("embedding.weight") * 8, 0.125, 0.01);
  EXPECT_NEAR(deviation("column_embedding.weight") * std::sqrt(128.0), 0.125, 0.03);
  EXPECT_NEAR(deviation("layers.0.query_key_value.weight") * 8, 0.125, 0.01);
  EXPECT_NEAR(deviation("layers.1.attention_output.weight") * 8 * 2, 0.125, 0.01);
  EXPECT_NEAR(deviation("layers.1.down.weight") * 16 * 2, 0.125, 0.01);
  EXPECT_EQ(deviation("layers.1.attention_norm.weight"), 1);
}

TEST(SparseTransformer, OtherTypesAndThreadsGiveTheSame) {
  for (const char* pattern : {"strided", "fixed"}) {
    Json json =
        small({{"pattern", pattern}, {"initialization", "normal"}, {"initializer_range", 0.2}});
    const auto ids = text_of("abcdefghijklmnop").ids;
    const Doubles wanted = drawn_logits(json, DType::f32, 1, ids);
    EXPECT_EQ(drawn_logits(json, DType::f32, 3, ids), wanted);
    EXPECT_TRUE(difference(drawn_logits(json, DType::bf16, 2, ids), wanted) <= 3e-2);
  }
}

TEST(SparseTransformer, ConfigurationsThatDoNotFitAreRefused) {
  const auto refused = [](const Json& changes) {
    return error_of([&] { parsed(small(changes)); });
  };
  EXPECT_EQ(refused(Json::object()), "");
  EXPECT_EQ(refused({{"stride", nullptr}}),
            "config.json: stride: expected a number from 2 to 1048576, found none");
  EXPECT_EQ(refused({{"pattern", "fixed"}, {"summary", 5}}),
            "config.json: summary: expected at most the stride of 4, found 5");
  EXPECT_EQ(refused({{"summary", 2}}),
            "config.json: summary: expected none with the pattern strided");
  EXPECT_EQ(refused({{"dilations", {0, 3}}}),
            "config.json: dilations: expected none beside the pattern strided, which has a stride");
  EXPECT_EQ(
      refused({{"max_position_embeddings", 18}}),
      "config.json: max_position_embeddings: expected a multiple of the stride of 4, found 18");
  EXPECT_EQ(refused({{"integration", "heads"}, {"num_attention_heads", 1}}),
            "config.json: integration: expected interleaved or merged with 1 head, found heads");
  EXPECT_NE(refused({{"positions", "relative"}}), "");
  EXPECT_NE(refused({{"attention", "dense"}, {"positions", "grid"}}), "");
  for (const char* pattern : {"strided", "fixed"}) {
    const Json written = to_json(parsed(small({{"pattern", pattern}})));
    EXPECT_EQ(to_json(parsed(written)), written);
  }
}

Json spanned(const Json& changes) {
  Json json = {{"model_type", "longformer-lm"},
               {"attention", "adaptive"},
               {"vocabulary", "text8"},
               {"hidden_size", 16},
               {"num_hidden_layers", 2},
               {"num_attention_heads", 4},
               {"max_span", 40},
               {"span_ramp", 8}};
  json.update(changes);
  return json;
}

TEST(AdaptiveSpan, MaskIsThatOfTheGoldenVector) {
  // docs/spec/golden.md#m4: S = 8, R = 4, z = 0.25.
  const kernels::SpanRamp ramp = {.longest = 8, .ramp = 4};
  const std::vector<double> wanted = {1, 1, 1, 0.75, 0.5, 0.25, 0, 0};
  for (Index x = 0; x < 8; ++x) EXPECT_EQ(kernels::span_mask(ramp, 0.25, x), wanted[at(x)]) << x;
  EXPECT_EQ(kernels::span_count(ramp, 0.25), 6);
  EXPECT_EQ(kernels::span_count(ramp, 0), 4);
  EXPECT_EQ(kernels::span_count(ramp, 1), 8);
  for (Index x = 0; x < 8; ++x) EXPECT_EQ(kernels::span_mask(ramp, 1, x), 1);
}

TEST(AdaptiveSpan, WithAShortSpanLessIsSeen) {
  for (const auto& [span, reach] : {std::pair{0.0, Index{8}}, {0.5, 28}, {1.0, 40}}) {
    const LanguageModelConfig config = parsed(spanned({{"initial_span", span}}));
    const LanguageModel model(config, Weights::drawn(1), DType::f32);
    EXPECT_EQ(model.config().windows, (std::vector<Index>{reach, reach}));
    for (const std::vector<double>& layer : model.spans()) {
      EXPECT_EQ(layer, std::vector<double>(4, 40 * span));
    }
    // The state keeps what the heads see, and no more.
    State past = model.start(DType::f32);
    MemoryPool memory;
    const ops::Context context = {.memory = memory, .threads = 1};
    const std::vector<std::int32_t> ids(200, 1);
    model.forward(context, segments_of(ids, 200), {.state = &past});
    model.forward(context, segments_of(std::span(ids).first(1), 1), {.state = &past});
    EXPECT_EQ(past.layer(0)->saved()[0].shape(), (Shape{4, reach + 1, 5}));
  }
}

TEST(AdaptiveSpan, OtherTypesAndThreadsGiveTheSame) {
  const Json json = spanned({{"initial_span", 0.4}, {"initializer_range", 0.2}});
  const auto ids = text_of(kText).ids;
  const Doubles wanted = drawn_logits(json, DType::f32, 1, ids);
  EXPECT_EQ(drawn_logits(json, DType::f32, 3, ids), wanted);
  EXPECT_TRUE(difference(drawn_logits(json, DType::bf16, 2, ids), wanted) <= 5e-2);
}

TEST(AdaptiveSpan, ConfigurationsThatDoNotFitAreRefused) {
  const auto refused = [](const Json& changes) {
    return error_of([&] { parsed(spanned(changes)); });
  };
  EXPECT_EQ(refused(Json::object()), "");
  EXPECT_EQ(refused({{"span_ramp", 41}}),
            "config.json: span_ramp: expected at most the max_span of 40, found 41");
  EXPECT_EQ(
      refused({{"initial_span", 1.5}}),
      "config.json: initial_span: expected a number from 0 to 1, a part of max_span, found 1.5");
  EXPECT_EQ(refused({{"windows", {4, 4}}}),
            "config.json: windows: expected none with the attention adaptive, which learns it");
  EXPECT_EQ(refused({{"positions", "learned"}}),
            "config.json: positions: expected distance_keys with the attention adaptive, found "
            "learned");
  EXPECT_NE(refused({{"attention", "dense"}, {"positions", "distance_keys"}}), "");
  const Json written = to_json(parsed(spanned(Json::object())));
  EXPECT_EQ(to_json(parsed(written)), written);
}

}  // namespace
}  // namespace longformer::models::pattern_lm_test
