// Models that write texts: logits against `transformers` (fixtures/make_sequence_models.py), token
// by token against all at once, and what a state keeps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "longformer/text.h"
#include "models/decoder.h"
#include "models/encoder.h"
#include "models/registry.h"

namespace longformer::models::sequence_models_test {
namespace {

using Ids = std::vector<std::int32_t>;

const std::filesystem::path kFixtures = fixtures_folder();

void expect_near(const std::vector<float>& found, const std::vector<float>& expected,
                 double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double wanted = static_cast<double>(expected[i]);
    const double gap = std::abs(static_cast<double>(found[i]) - wanted);
    ASSERT_TRUE(gap <= tolerance * std::max(1.0, std::abs(wanted)))
        << i << ": " << found[i] << " instead of " << expected[i];
  }
}

class SequenceModel : public testing::TestWithParam<std::string> {
 protected:
  SequenceModel()
      : folder_((kFixtures / GetParam()).string()),
        config_(read_config(folder_ + "/config.json")),
        weights_(Weights::open(folder_, config_.family->names)),
        encoder_(config_, weights_, DType::f32),
        decoder_(config_, weights_, DType::f32) {}

  /// A document with its first token global, where the model can have that.
  Tensor encoded(const Ids& ids) const {
    BatchBuilder builder(config_);
    const std::vector<Index> first = {0};
    builder.add(
        {.ids = ids, .globals = config_.has_global_attention() ? first : std::vector<Index>()},
        "document");
    return encoder_.forward(context_, builder.finish());
  }
  static Batch texts_of(const std::vector<Ids>& texts) {
    Batch batch;
    batch.starts = {0};
    for (const Ids& text : texts) {
      batch.ids.insert(batch.ids.end(), text.begin(), text.end());
      batch.starts.push_back(batch.rows());
    }
    return batch;
  }
  std::vector<float> all_at_once(const Ids& document, const Ids& text) const {
    const Tensor states = encoded(document);
    const Tensor hidden =
        decoder_.forward(context_, texts_of({text}), {states, {0, states.rows()}, {}});
    return decoder_.logits(context_, hidden).to_floats();
  }

  std::string folder_;
  EncoderConfig config_;
  Weights weights_;
  Encoder encoder_;
  Decoder decoder_;
  MemoryPool memory_;
  ops::Context context_ = {.memory = memory_, .dtype = DType::f32, .threads = 2};
};

TEST_P(SequenceModel, LogitsAreThoseOfTransformers) {
  const auto expected = formats::read_json(folder_ + "/expected.json");
  const Tokenizer tokenizer = Tokenizer::load((kFixtures / "tiny_roberta").string());
  const auto document = tokenizer.encode(expected["texts"][1].get<std::string>()).ids;
  std::vector<float> logits;
  for (const auto& row : expected["logits"]) {
    for (const auto& value : row) logits.push_back(value.get<float>());
  }
  expect_near(all_at_once(document, expected["prompt"].get<Ids>()), logits, 1e-4);
}

TEST_P(SequenceModel, TokenByTokenIsAllAtOnce) {
  const std::vector<Ids> documents = {{0, 20, 31, 44, 7, 9, 2}, {0, 9, 2}, {0, 51, 52, 53, 54, 2}};
  const std::vector<Ids> texts = {
      {2, 0, 40, 41, 42, 43}, {2, 0, 70, 71, 72, 73}, {2, 0, 9, 8, 7, 6}};
  State state = decoder_.begin(DType::f32);
  std::vector<std::vector<float>> found(3);
  std::vector<std::size_t> streams, written(3, 0);
  const auto join = [&](std::size_t document) {
    decoder_.read(context_, encoded(documents[document]), {}, state);
    streams.push_back(document);
  };
  // The next tokens of every stream, as many as `counts` says.
  const auto read = [&](const std::vector<std::size_t>& counts) {
    std::vector<Ids> next;
    std::vector<std::size_t> owners;
    for (std::size_t s = 0; s < streams.size(); ++s) {
      const std::size_t document = streams[s];
      const auto begin = texts[document].begin() + static_cast<std::ptrdiff_t>(written[document]);
      next.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(counts[s]));
      written[document] += counts[s];
      owners.insert(owners.end(), counts[s], document);
    }
    const Tensor logits =
        decoder_.logits(context_, decoder_.forward(context_, texts_of(next), state));
    for (std::size_t row = 0; row < owners.size(); ++row) {
      const auto values = logits.slice_rows(static_cast<Index>(row), 1).to_floats();
      found[owners[row]].insert(found[owners[row]].end(), values.begin(), values.end());
    }
  };
  join(0);
  join(1);
  read({3, 1});
  join(2);
  read({1, 1, 3});
  read({2, 0, 1});
  // The first text is whole and leaves; the others change places.
  state.reorder(std::vector<Index>{2, 1});
  streams = {2, 1};
  read({1, 2});
  read({1, 2});
  for (std::size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    // The weights of the fixtures are large: the largest difference is 1.1e-5, at a logit of −0.9.
    expect_near(found[i], all_at_once(documents[i], texts[i]), 3e-5);
  }
}

TEST_P(SequenceModel, BeamsShareTheKeysOfTheirDocument) {
  State state = decoder_.begin(DType::f32);
  const Ids document(100, 17);
  decoder_.read(context_, encoded(document), {}, state);
  const std::int64_t alone = state.bytes();
  state.reorder(std::vector<Index>{0, 0, 0, 0});
  decoder_.forward(context_, texts_of({{2}, {2}, {2}, {2}}), state);
  const Index own = 2 * 2 * 32 * config_.hidden_size * 4;
  EXPECT_EQ(state.bytes() - alone, 3 * own);
  // Texts part, and come together again.
  const Tensor hidden = decoder_.forward(context_, texts_of({{5}, {6}, {7}, {5}}), state);
  const auto first = hidden.slice_rows(0, 1).to_floats();
  EXPECT_EQ(first, hidden.slice_rows(3, 1).to_floats());
  EXPECT_NE(first, hidden.slice_rows(1, 1).to_floats());
  const State copy = state;
  state.reorder(std::vector<Index>{1, 1, 0});
  EXPECT_EQ(copy.streams(), 4);
  const Tensor next = decoder_.forward(context_, texts_of({{9}, {9}, {9}}), state);
  EXPECT_EQ(next.slice_rows(0, 1).to_floats(), next.slice_rows(1, 1).to_floats());
  EXPECT_NE(next.slice_rows(0, 1).to_floats(), next.slice_rows(2, 1).to_floats());
}

TEST_P(SequenceModel, MaskedTokensAreNotSeen) {
  const Ids short_document = {0, 20, 31, 2};
  const Tensor states = encoded(short_document);
  State alone = decoder_.begin(DType::f32), masked = decoder_.begin(DType::f32);
  decoder_.read(context_, states, {}, alone);
  const std::vector<std::uint8_t> mask = {1, 1, 1, 1, 0, 0};
  Ids longer = short_document;
  longer.insert(longer.end(), {50, 51});
  // The rows of the same states with two more behind them.
  const std::vector<Tensor> parts = {states, encoded(longer).slice_rows(4, 2)};
  Tensor joined({6, config_.hidden_size}, DType::f32);
  std::copy_n(parts[0].data<float>(), parts[0].size(), joined.data<float>());
  std::copy_n(parts[1].data<float>(), parts[1].size(), joined.data<float>() + parts[0].size());
  decoder_.read(context_, joined, mask, masked);
  const auto expected = decoder_.forward(context_, texts_of({{2, 0, 5}}), alone).to_floats();
  expect_near(decoder_.forward(context_, texts_of({{2, 0, 5}}), masked).to_floats(), expected,
              1e-6);
}

TEST_P(SequenceModel, TextsBeyondThePositionsAreRefused) {
  State state = decoder_.begin(DType::f32);
  decoder_.read(context_, encoded({0, 2}), {}, state);
  const Ids text(at(config_.decoder->max_tokens()), 5);
  decoder_.forward(context_, texts_of({text}), state);
  expect_error(error_of([&] { decoder_.forward(context_, texts_of({{5}}), state); }),
               {"text 0", "positions"});
}

INSTANTIATE_TEST_SUITE_P(All, SequenceModel,
                         testing::Values("tiny_led", "tiny_bart", "tiny_bigbird_pegasus",
                                         "tiny_pegasus", "tiny_pegasus_x", "tiny_mbart"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace longformer::models::sequence_models_test
