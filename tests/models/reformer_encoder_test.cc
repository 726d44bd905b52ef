// Reformers that look both ways, against what `transformers` computes in double precision
// (tests/fixtures/make_modern_encoders.py), and their config.json. Heads are in tests/engine and
// tests/api (tiny_reformer*).
//
// Reruns: tsan
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/tape.h"
#include "doubles.h"
#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/encoder.h"
#include "models/registry.h"

namespace longformer::models::reformer_encoder_test {
namespace {

EncoderConfig parsed(const std::string& keys) {
  const std::string text = R"({"model_type": "reformer")" + keys + "}";
  const auto object = formats::parse_json(text, "config.json");
  return parse_config(formats::ConfigReader(object, "config.json"));
}

/// Relative to the largest number, of which the least is 1.
double largest_difference(const Doubles& found, const Doubles& wanted) {
  if (found.size() != wanted.size() || found.empty()) return NAN;
  double size = 1, most = 0;
  for (const double x : wanted) size = std::max(size, std::abs(x));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double here = std::abs(found[i] - wanted[i]);
    if (!(here <= most)) most = here;
  }
  return most / size;
}

/// A stored encoder and its three documents.
struct Stored {
  explicit Stored(const std::string& name, DType dtype = DType::f32)
      : folder((fixtures_folder() / name).string()),
        config(read_config(folder + "/config.json")),
        weights(Weights::trained(Weights::open(folder, config.family->names), {})),
        encoder(config, weights, dtype),
        expected(formats::SafetensorsFile::open(folder + "/expected.safetensors")) {
    context.dtype = dtype;
  }

  std::vector<std::int32_t> numbers(int document, const char* key) const {
    const Tensor& tensor = expected.tensors().at(fmt::format("{}.{}", document, key));
    return {tensor.data<std::int32_t>(), tensor.data<std::int32_t>() + tensor.size()};
  }
  void add(int document, Batch& batch) const {
    const auto ids = numbers(document, "input_ids"), mask = numbers(document, "attention_mask");
    append(ids, mask, batch);
  }
  static void append(std::span<const std::int32_t> ids, std::span<const std::int32_t> mask,
                     Batch& batch) {
    batch.ids.insert(batch.ids.end(), ids.begin(), ids.end());
    batch.mask.insert(batch.mask.end(), mask.begin(), mask.end());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      batch.positions.push_back(static_cast<std::int32_t>(i));
      batch.types.push_back(0);
    }
    batch.starts.push_back(batch.rows());
  }
  Batch all() const {
    Batch batch;
    batch.starts = {0};
    for (int i = 0; i < 3; ++i) add(i, batch);
    return batch;
  }
  /// The stored numbers of all documents; rows that are masked are zeros.
  Doubles wanted(const std::string& key) const {
    Doubles all;
    for (int i = 0; i < 3; ++i) {
      const Doubles one = doubles(expected.tensors().at(fmt::format("{}.{}", i, key)));
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  std::string folder;
  EncoderConfig config;
  Weights weights;
  Encoder encoder;
  formats::SafetensorsFile expected;
  MemoryPool memory;
  ops::Context context = {.memory = memory, .threads = 2};
};

Doubles seen(const Tensor& states, const Batch& batch) {
  Doubles numbers = doubles(states);
  const std::size_t width = numbers.size() / batch.ids.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (batch.mask[i / width] == 0) numbers[i] = 0;
  }
  return numbers;
}

class ReformerEncoders : public testing::TestWithParam<std::string> {};

TEST_P(ReformerEncoders, StatesOfEveryLayerAreThoseOfTransformers) {
  const Stored stored(GetParam());
  const Batch batch = stored.all();
  std::vector<Tensor> states;
  const Tensor last = stored.encoder.forward(stored.context, batch, {.hidden_states = &states});
  ASSERT_EQ(states.size(), at(stored.config.layers + 1));
  for (std::size_t layer = 0; layer + 1 < states.size(); ++layer) {
    const Doubles wanted = stored.wanted(fmt::format("hidden_state.{}", layer));
    EXPECT_LE(largest_difference(seen(states[layer], batch), wanted), 2e-6) << layer;
  }
  EXPECT_EQ(last.columns(), 2 * stored.config.hidden_size);
  EXPECT_LE(largest_difference(seen(last, batch), stored.wanted("last_hidden_state")), 5e-6);
}

/// Tokens that are masked at the end are what fills a text up to whole chunks.
TEST_P(ReformerEncoders, TextsAreFilledUpWithMaskedTokens) {
  const Stored stored(GetParam());
  for (const std::size_t length : {1u, 3u, 5u, 9u, 13u}) {
    const std::vector<std::int32_t> ids = stored.numbers(0, "input_ids");
    const std::size_t whole = length <= 4 ? length : (length + 3) / 4 * 4;
    std::vector<std::int32_t> mask(whole, 1);
    std::fill(mask.begin() + static_cast<std::ptrdiff_t>(length), mask.end(), 0);
    Batch alone, filled;
    alone.starts = filled.starts = {0};
    Stored::append(std::span(ids).first(length), std::span(mask).first(length), alone);
    Stored::append(std::span(ids).first(whole), mask, filled);
    const Tensor few = stored.encoder.forward(stored.context, alone);
    const Tensor many = stored.encoder.forward(stored.context, filled);
    const auto rows = static_cast<Index>(length);
    EXPECT_LE(largest_difference(doubles(few), doubles(many.slice_rows(0, rows))), 2e-6) << length;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReformerEncoders,
                         testing::Values("tiny_reformer", "tiny_reformer_model",
                                         "tiny_reformer_classifier", "tiny_reformer_qa"),
                         [](const auto& info) { return info.param; });

/// Back through layers that are undone, on both sides.
TEST(ReformerEncoder, GradientsAreThoseOfTransformers) {
  Stored stored("tiny_reformer_model");
  const Batch batch = stored.all();
  Tape tape;
  stored.context.tape = &tape;
  const Tensor hidden = stored.encoder.forward(stored.context, batch);
  const Doubles direction = stored.wanted("direction");
  const std::vector<float> numbers(direction.begin(), direction.end());
  hidden.gradient()->sum = Tensor::from(numbers, hidden.shape());
  tape.backward();
  std::size_t compared = 0;
  for (const auto& [name, value] : stored.weights.parameters()) {
    const auto found =
        stored.expected.tensors().find("gradient." + stored.config.family->names.file_name(name));
    if (found == stored.expected.tensors().end()) continue;
    EXPECT_LE(largest_difference(doubles(value.gradient()->take()), doubles(found->second)), 5e-5)
        << name;
    ++compared;
  }
  // Words, positions, the last norm, and layer 1: two norms, two layers with biases, four without.
  EXPECT_EQ(compared, 2u + 2u + 4u + 4u + 4u);
}

TEST(ReformerEncoder, AxialPositionsAreTrainedByWholeTextsAlone) {
  Stored stored("tiny_reformer");
  Batch batch;
  batch.starts = {0};
  Stored::append(std::vector<std::int32_t>(12, 7), std::vector<std::int32_t>(12, 1), batch);
  EXPECT_EQ(stored.encoder.forward(stored.context, batch).rows(), 12);
  Tape tape;
  stored.context.tape = &tape;
  expect_error(error_of([&] { stored.encoder.forward(stored.context, batch); }),
               {"training: expected texts of 16 tokens, as axial_pos_shape is 2 × 8", "found 12"});
}

TEST(ReformerEncoder, Bf16KeepsTheLayersAndComesNear) {
  for (const bool recomputes : {false, true}) {
    Stored exact("tiny_reformer_model"), rounded("tiny_reformer_model", DType::bf16);
    const Batch batch = exact.all();
    Tape tape;
    rounded.context.tape = &tape;
    rounded.context.recomputes = recomputes;
    const Tensor near = rounded.encoder.forward(rounded.context, batch);
    const Tensor wanted = exact.encoder.forward(exact.context, batch);
    EXPECT_LE(largest_difference(seen(near, batch), seen(wanted, batch)), 0.15);
    near.gradient()->sum =
        Tensor::from(std::vector<float>(at(near.size()), 1.0f), near.shape()).to(DType::bf16);
    tape.backward();
    for (const auto& [name, value] : rounded.weights.parameters()) {
      const Tensor sum = value.gradient()->take();
      ASSERT_FALSE(sum.empty()) << name;
      for (const double x : doubles(sum)) ASSERT_TRUE(std::isfinite(x)) << name;
    }
  }
}

TEST(ReformerEncoderConfig, TakesTheClassDefaultsOfTransformers) {
  const EncoderConfig config = parsed("");
  EXPECT_EQ(config.vocab_size, 320);
  EXPECT_EQ(config.hidden_size, 256);
  EXPECT_EQ(config.last_size(), 512);
  EXPECT_EQ(config.heads, 12);
  EXPECT_EQ(config.head_size(), 64);
  EXPECT_EQ(config.intermediate_size, 512);
  EXPECT_EQ(config.activation, Activation::relu);
  EXPECT_EQ(config.layer_norm_eps, 1e-12);
  EXPECT_EQ(config.max_tokens(), 4096);
  EXPECT_EQ(config.hidden_dropout, 0.05);
  EXPECT_EQ(config.attention_dropout, 0.05);
  EXPECT_EQ(config.layers, 6);
  EXPECT_EQ(config.patterns.size(), 6u);
  EXPECT_FALSE(config.tie_word_embeddings || config.recipe.has_position_table);
  const ReformerConfig& reformer = *config.reformer;
  EXPECT_EQ(reformer.layers[0], ChunkLayer::local);
  EXPECT_EQ(reformer.layers[5], ChunkLayer::lsh);
  EXPECT_EQ(reformer.lsh_dropout, 0);
  EXPECT_EQ(reformer.axial_shape, (std::array<Index, 2>{64, 64}));
  EXPECT_EQ(config.unused_keys, "");
}

TEST(ReformerEncoderConfig, ReadsWhatIsWritten) {
  const EncoderConfig config = parsed(
      R"(, "hidden_size": 10, "num_attention_heads": 3, "attention_head_size": 7,
          "feed_forward_size": 11, "attn_layers": ["lsh", "local"], "num_hidden_layers": 12,
          "lsh_num_chunks_after": 2, "local_num_chunks_before": 0, "num_buckets": [2, 8],
          "axial_pos_shape": [3, 5], "axial_pos_embds_dim": [4, 6], "hidden_act": "gelu",
          "max_position_embeddings": 40, "local_attention_probs_dropout_prob": 0.3,
          "lsh_attention_probs_dropout_prob": 0.2, "axial_norm_std": 0.5)");
  // attn_layers says how many there are, as in `transformers`.
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.query_width(), 21);
  EXPECT_EQ(config.intermediate_size, 11);
  EXPECT_EQ(config.activation, Activation::gelu);
  EXPECT_EQ(config.attention_dropout, 0.3);
  EXPECT_EQ(config.reformer->lsh_dropout, 0.2);
  EXPECT_EQ(config.reformer->lsh.after, 2);
  EXPECT_EQ(config.reformer->local.before, 0);
  // There are as many as axial positions; the number of buckets counts those of the key.
  EXPECT_EQ(config.max_tokens(), 15);
  EXPECT_EQ(config.reformer->longest, 40);
  const EncoderConfig learned =
      parsed(R"(, "axial_pos_embds": false, "max_position_embeddings": 40)");
  EXPECT_TRUE(learned.recipe.has_position_table);
  EXPECT_EQ(learned.max_tokens(), 40);
}

TEST(ReformerEncoderConfig, BadValuesAreNamed) {
  const auto refused = [](const std::string& keys, const std::vector<std::string>& parts) {
    expect_error(error_of([&] { parsed(keys); }), parts);
  };
  refused(R"(, "is_decoder": true)",
          {"config.json: is_decoder: expected false, found true", "--to longformer-lm"});
  refused(R"(, "attn_layers": [])", {"attn_layers: expected a list of 1 to", "found []"});
  refused(R"(, "attn_layers": ["local", "global"])", {"expected local or lsh, found \"global\""});
  refused(R"(, "lsh_num_chunks_after": -1)", {"lsh_num_chunks_after", "found -1"});
  refused(R"(, "num_buckets": 7)", {"num_buckets: expected even numbers from 2", "found 7"});
  refused(R"(, "axial_pos_embds_dim": [3, 6])",
          {"axial_pos_embds_dim", "the hidden_size of 256, found 3 + 6 = 9"});
  refused(R"(, "tie_word_embeddings": true)",
          {"tie_word_embeddings: expected false", "512 numbers and those of the table 256"});
  refused(R"(, "lsh_attention_probs_dropout_prob": 1)",
          {"lsh_attention_probs_dropout_prob", "found 1"});
  refused(R"(, "axial_norm_std": -1)", {"axial_norm_std", "found -1"});
  refused(R"(, "vocabulary": "bytes", "norm_first": false)",
          {"norm_first: expected true for a reformer", "found false"});
}

}  // namespace
}  // namespace longformer::models::reformer_encoder_test
