// The character Longformer against an independent PyTorch version of it in double precision
// (tests/fixtures/make_character_lm.py): logits, loss, gradients; and reading piece by piece.
//
// Reruns: tsan
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/memory.h"
#include "core/random.h"
#include "error_testing.h"
#include "fixtures.h"
#include "formats/safetensors.h"
#include "models/language_model.h"
#include "tasks/language_model/phases.h"
#include "tasks/language_model/text_scoring.h"
#include "temporary_folder.h"

namespace longformer::models::character_lm_test {
namespace {

namespace fs = std::filesystem;

const std::string kText = "the quick brown fox jumps over the lazy dog and runs away ";

fs::path root() { return fixtures_folder().parent_path().parent_path(); }
std::string fixture(const std::string& name) {
  return (root() / "tests" / "fixtures" / "character_lm" / name).string();
}

/// Largest |a − b| over the largest |b|; NaN where either has one or they differ in size.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return NAN;
  double largest = 0, scale = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double here = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(here <= largest)) largest = here;
    scale = std::max(scale, std::abs(static_cast<double>(b[i])));
  }
  return scale > 0 ? largest / scale : largest;
}

struct Text {
  std::vector<std::int32_t> ids, labels;
};
Text text_of(const std::string& characters) {
  const auto all = text::encode_characters(text::Alphabet::text8, characters);
  return {{all.begin(), all.end() - 1}, {all.begin() + 1, all.end()}};
}

struct Loaded {
  explicit Loaded(const std::string& name, bool trained = false)
      : weights(trained ? Weights::trained(Weights::open(fixture(name), {}), {})
                        : Weights::open(fixture(name), {})),
        model(read_language_model(fixture(name) + "/config.json"), weights, DType::f32),
        expected(formats::SafetensorsFile::open(fixture(name) + "/expected.safetensors")) {}

  ops::Context context(int threads = 2) { return {.memory = memory, .threads = threads}; }
  std::vector<float> wanted(const std::string& name) const {
    return expected.tensors().at(name).to_floats();
  }

  MemoryPool memory;
  Weights weights;
  LanguageModel model;
  formats::SafetensorsFile expected;
};

class CharacterLmFixture : public testing::TestWithParam<std::string> {};

TEST_P(CharacterLmFixture, LogitsAreThoseOfPyTorch) {
  for (const bool trained : {false, true}) {
    Loaded loaded(GetParam(), trained);
    const Text text = text_of(kText);
    const auto n = static_cast<Index>(text.ids.size());
    const Tensor hidden = loaded.model.forward(loaded.context(), segments_of(text.ids, n));
    const auto logits = loaded.model.logits(loaded.context(), hidden).to_floats();
    EXPECT_TRUE(difference(logits, loaded.wanted("logits")) <= 2e-6)
        << difference(logits, loaded.wanted("logits"));
    const ops::LossSum loss =
        loaded.model.loss(loaded.context(), segments_of(text.ids, n), text.labels, {.scale = 1});
    EXPECT_TRUE(std::abs(loss.sum / loaded.wanted("loss")[0] - 1) <= 2e-6);
    EXPECT_EQ(loss.weight, static_cast<double>(n));
  }
}

TEST_P(CharacterLmFixture, GradientsAreThoseOfPyTorch) {
  for (const bool recomputes : {false, true}) {
    Loaded loaded(GetParam(), true);
    const Text text = text_of(kText);
    Tape tape;
    ops::Context context = loaded.context();
    context.tape = &tape;
    context.recomputes = recomputes;
    loaded.model.loss(context, segments_of(text.ids, static_cast<Index>(text.ids.size())),
                      text.labels, {.scale = 1});
    tape.backward();
    std::size_t compared = 0;
    for (const auto& [name, value] : loaded.weights.parameters()) {
      ASSERT_FALSE(value.gradient()->sum.empty()) << name;
      const double here =
          difference(value.gradient()->sum.to_floats(), loaded.wanted("gradient." + name));
      EXPECT_TRUE(here <= 2e-5) << name << ": " << here;
      ++compared;
    }
    EXPECT_EQ(compared + 2, loaded.expected.tensors().size());
  }
}

TEST_P(CharacterLmFixture, ReadPieceByPieceGivesTheSame) {
  Loaded loaded(GetParam());
  std::string characters;
  for (int i = 0; i < 12; ++i) characters += kText;
  const Text text = text_of(characters);
  const auto n = static_cast<Index>(text.ids.size());
  ops::Context context = loaded.context();
  const auto whole =
      loaded.model.logits(context, loaded.model.forward(context, segments_of(text.ids, n)))
          .to_floats();
  for (const std::size_t piece : {1u, 7u, 64u, 700u}) {
    State past = loaded.model.start(DType::f32);
    std::vector<float> logits;
    for (std::size_t begin = 0; begin < text.ids.size(); begin += piece) {
      const auto count = std::min(piece, text.ids.size() - begin);
      const std::span<const std::int32_t> ids(text.ids.data() + begin, count);
      const Tensor hidden = loaded.model.forward(
          context, segments_of(ids, static_cast<Index>(count)), {.state = &past});
      for (const float logit : loaded.model.logits(context, hidden).to_floats()) {
        logits.push_back(logit);
      }
    }
    EXPECT_EQ(past.tokens(0), n);
    EXPECT_TRUE(difference(logits, whole) <= 1e-5) << piece << ": " << difference(logits, whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Both, CharacterLmFixture, testing::Values("tied", "untied"));

/// Logits of the next `count` characters of each stream, which begin at these places of a text.
std::vector<float> next_logits(Loaded& loaded, const Text& text, std::span<const Index> places,
                               Index count, State& state) {
  Batch batch;
  for (const Index place : places) {
    batch.starts.push_back(batch.rows());
    for (Index i = place; i < place + count; ++i) batch.ids.push_back(text.ids[at(i)]);
  }
  batch.starts.push_back(batch.rows());
  const ops::Context context = loaded.context();
  return loaded.model.logits(context, loaded.model.forward(context, batch, {.state = &state}))
      .to_floats();
}

std::vector<float> part(const std::vector<float>& all, std::size_t index, std::size_t count) {
  const std::size_t size = all.size() / count;
  return {all.begin() + static_cast<std::ptrdiff_t>(index * size),
          all.begin() + static_cast<std::ptrdiff_t>((index + 1) * size)};
}

TEST(CharacterState, StreamsAreReadTogetherAsAlone) {
  Loaded loaded("tied");
  const Text text = text_of(kText);
  State both = loaded.model.start(DType::f32, 2);
  State first = loaded.model.start(DType::f32);
  State second = loaded.model.start(DType::f32);
  for (const auto& [begin, count] : {std::pair<Index, Index>{0, 9}, {9, 1}, {10, 12}}) {
    const std::array<Index, 2> places = {begin, begin + 20};
    const auto together = next_logits(loaded, text, places, count, both);
    const auto a = next_logits(loaded, text, std::span(places).first(1), count, first);
    const auto b = next_logits(loaded, text, std::span(places).last(1), count, second);
    EXPECT_TRUE(difference(part(together, 0, 2), a) <= 1e-6);
    EXPECT_TRUE(difference(part(together, 1, 2), b) <= 1e-6);
  }
  EXPECT_EQ(both.tokens(1), 22);
  EXPECT_GT(both.bytes(), first.bytes());
}

TEST(CharacterState, ReorderedStreamsGoOnFromTheirSources) {
  Loaded loaded("tied");
  const Text text = text_of(kText);
  State state = loaded.model.start(DType::f32, 2);
  next_logits(loaded, text, std::array<Index, 2>{0, 20}, 12, state);
  State alone = state;
  const std::array<Index, 3> sources = {1, 0, 1};
  state.reorder(sources);
  ASSERT_EQ(state.streams(), 3);
  EXPECT_EQ(state.tokens(2), 12);
  const auto ordered = next_logits(loaded, text, std::array<Index, 3>{40, 40, 40}, 5, state);
  const auto before = next_logits(loaded, text, std::array<Index, 2>{40, 40}, 5, alone);
  EXPECT_TRUE(difference(part(ordered, 0, 3), part(before, 1, 2)) <= 1e-6);
  EXPECT_TRUE(difference(part(ordered, 1, 3), part(before, 0, 2)) <= 1e-6);
  EXPECT_TRUE(difference(part(ordered, 2, 3), part(before, 1, 2)) <= 1e-6);
  EXPECT_TRUE(difference(part(before, 0, 2), part(before, 1, 2)) > 1e-3);
  EXPECT_THROW(state.reorder(std::array<Index, 1>{3}), Error);
}

TEST(CharacterState, ACopyIsIndependent) {
  Loaded loaded("tied");
  const Text text = text_of(kText);
  const std::array<Index, 1> begin = {0}, next = {12};
  State state = loaded.model.start(DType::f32);
  next_logits(loaded, text, begin, 12, state);
  State copy = state;
  const auto here = next_logits(loaded, text, next, 8, state);
  next_logits(loaded, text, std::array<Index, 1>{30}, 20, state);
  EXPECT_EQ(next_logits(loaded, text, next, 8, copy), here);
}

TEST(CharacterState, ASavedOneGoesOn) {
  Loaded loaded("tied");
  const Text text = text_of(kText);
  const TemporaryFolder folder;
  State state = loaded.model.start(DType::f32, 2);
  next_logits(loaded, text, std::array<Index, 2>{0, 20}, 15, state);
  state.save(folder.path());
  State restored = loaded.model.start(DType::f32, 2);
  restored.restore(folder.path());
  EXPECT_EQ(restored.tokens(1), 15);
  const std::array<Index, 2> places = {15, 35};
  EXPECT_TRUE(difference(next_logits(loaded, text, places, 9, restored),
                         next_logits(loaded, text, places, 9, state)) <= 1e-6);
  State other = loaded.model.start(DType::f32, 1);
  EXPECT_THROW(other.restore(folder.path()), Error);
  State narrow = loaded.model.start(DType::bf16, 2);
  EXPECT_THROW(narrow.restore(folder.path()), Error);
}

TEST(LanguageModel, SegmentsDoNotSeeEachOther) {
  Loaded loaded("tied");
  const Text text = text_of(kText);
  ops::Context context = loaded.context();
  const Tensor both = loaded.model.forward(context, segments_of(text.ids, 20));
  const std::span<const std::int32_t> ids(text.ids);
  for (const auto& [begin, count] : {std::pair<Index, Index>{0, 20}, {20, 20}, {40, 17}}) {
    const Tensor alone =
        loaded.model.forward(context, segments_of(ids.subspan(begin, count), count));
    const auto here = both.slice_rows(begin, count).to_floats();
    EXPECT_TRUE(difference(here, alone.to_floats()) <= 1e-6) << begin;
  }
}

/// Loss under dropout with this seed, and with a tape its gradients.
double dropped_loss(Loaded& loaded, const Text& text, Tape* tape) {
  ops::Context context = loaded.context();
  context.tape = tape;
  context.dropout_seed = 5;
  return loaded.model.loss(context, segments_of(text.ids, 30), text.labels, {.scale = 1}).sum;
}

TEST(LanguageModel, GradientsUnderDropoutAreThoseOfTheLoss) {
  Loaded loaded("tied", true);
  const Text text = text_of(kText);
  EXPECT_GT(std::abs(dropped_loss(loaded, text, nullptr) - loaded.wanted("loss")[0]), 1.0);
  Tape tape;
  dropped_loss(loaded, text, &tape);
  tape.backward();
  for (const auto& [name, value] : loaded.weights.parameters()) {
    // Along the gradient the loss changes by its square.
    const auto gradient = value.gradient()->sum.to_floats();
    double square = 0;
    for (const float g : gradient) square += static_cast<double>(g) * g;
    ASSERT_GT(square, 0.0) << name;
    const double step = 2e-3 / std::sqrt(square);
    const auto before = value.to_floats();
    Tensor moved = value;
    const auto loss_at = [&](double factor) {
      for (std::size_t i = 0; i < before.size(); ++i) {
        moved.data<float>()[i] = static_cast<float>(before[i] + factor * step * gradient[i]);
      }
      return dropped_loss(loaded, text, nullptr);
    };
    const double slope = (loss_at(1) - loss_at(-1)) / (2 * step);
    loss_at(0);
    EXPECT_TRUE(std::abs(slope / square - 1) <= 0.02) << name << ": " << slope << ' ' << square;
  }
}

TEST(LanguageModel, WindowsChangeWithoutNewWeights) {
  Loaded loaded("tied");
  const Text text = text_of(kText);
  const auto n = static_cast<Index>(text.ids.size());
  ops::Context context = loaded.context();
  const Batch batch = segments_of(text.ids, n);
  const auto before = loaded.model.forward(context, batch).to_floats();
  loaded.model.set_windows({10, 200, 18});
  EXPECT_GT(difference(loaded.model.forward(context, batch).to_floats(), before), 1e-3);
  loaded.model.set_windows({5, 100, 9});
  EXPECT_EQ(loaded.model.forward(context, batch).to_floats(), before);
}

TEST(LanguageModel, ConfigsOfThePaperHaveItsParameters) {
  const std::map<std::string, double> millions = {{"small", 41.06}, {"large", 102.48}};
  for (const auto& [name, wanted] : millions) {
    const auto config =
        read_language_model((root() / "examples" / "language-models" / (name + ".json")).string());
    const double found = static_cast<double>(parameter_count(config)) * 1e-6;
    EXPECT_TRUE(std::abs(found / wanted - 1) <= 0.01) << name << ": " << found;
  }
  // The count is that of the weights which the model asks for.
  for (const std::string name : {"tied", "untied"}) {
    Loaded loaded(name, true);
    Index elements = 0;
    for (const auto& [weight, value] : loaded.weights.parameters()) elements += value.size();
    EXPECT_EQ(elements, parameter_count(loaded.model.config())) << name;
  }
}

TEST(LanguageModel, Bf16IsCloseToPyTorch) {
  Loaded loaded("tied", true);
  const LanguageModel model(loaded.model.config(), loaded.weights, DType::bf16);
  const Text text = text_of(kText);
  Tape tape;
  ops::Context context = loaded.context();
  context.dtype = DType::bf16;
  context.tape = &tape;
  const ops::LossSum loss =
      model.loss(context, segments_of(text.ids, static_cast<Index>(text.ids.size())), text.labels,
                 {.scale = 1});
  tape.backward();
  EXPECT_TRUE(std::abs(loss.sum / loaded.wanted("loss")[0] - 1) <= 0.02) << loss.sum;
  for (const auto& [name, value] : loaded.weights.parameters()) {
    const double here =
        difference(value.gradient()->sum.to_floats(), loaded.wanted("gradient." + name));
    EXPECT_TRUE(here <= 0.15) << name << ": " << here;
  }
}

TEST(LanguageModel, PhasesOfThePaperDoubleWindowsAndHalveTheRate) {
  const std::map<std::string, std::vector<Index>> steps = {
      {"small", {430000, 50000, 50000, 35000, 5000}},
      {"large", {350000, 25000, 10000, 5000, 5000}}};
  const std::vector<Index> lengths = {2048, 4096, 8192, 16384, 23040};
  for (const auto& [name, wanted] : steps) {
    const std::string path = (root() / "examples" / "language-models" / name).string();
    const auto config = read_language_model(path + ".json");
    const auto phases = tasks::read_phases(path + "-phases.json", config);
    ASSERT_EQ(phases.size(), 5u);
    for (std::size_t i = 0; i < phases.size(); ++i) {
      EXPECT_EQ(phases[i].steps, wanted[i]);
      EXPECT_EQ(phases[i].length, lengths[i]);
      EXPECT_EQ(phases[i].batch, i < 2 ? 32 : 16);
      EXPECT_EQ(phases[i].warmup_steps, std::min<Index>(wanted[i] / 10, 10000));
      EXPECT_EQ(phases[i].learning_rate, 2.5e-4 / static_cast<double>(1 << i));
      for (std::size_t layer = 0; layer < config.windows.size(); ++layer) {
        EXPECT_EQ(phases[i].windows[layer], config.windows[layer] << i);
      }
    }
    EXPECT_EQ(phases[0].windows.front(), 32);
    EXPECT_EQ(phases[4].windows.back(), 8192);
  }
}

TEST(LanguageModel, DrawnCharactersHaveTheirProbabilities) {
  const std::vector<float> logits = {0.5f, 2.0f, -1.0f, 1.0f};
  constexpr int kDraws = 20000;
  const auto shares = [&](const GenerateOptions& options) {
    std::vector<double> counts(logits.size(), 0.0);
    for (int i = 0; i < kDraws; ++i) {
      const double uniform = (i + 0.5) / kDraws;
      counts[static_cast<std::size_t>(tasks::draw(logits, options, uniform))] += 1.0 / kDraws;
    }
    return counts;
  };
  const auto expect_softmax = [&](const GenerateOptions& options, const std::vector<bool>& kept) {
    double sum = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (kept[i]) sum += std::exp(logits[i] / options.temperature);
    }
    const auto found = shares(options);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double wanted = kept[i] ? std::exp(logits[i] / options.temperature) / sum : 0;
      EXPECT_TRUE(std::abs(found[i] - wanted) <= 2.0 / kDraws) << i;
    }
  };
  expect_softmax({}, {true, true, true, true});
  expect_softmax({.temperature = 0.5}, {true, true, true, true});
  expect_softmax({.temperature = 2, .top_k = 2}, {false, true, false, true});
  EXPECT_NEAR(shares({.temperature = 0})[1], 1.0, 1e-9);
  EXPECT_NEAR(shares({.temperature = 1e-6})[1], 1.0, 1e-9);
}

TEST(LanguageModel, ConfigIsWrittenAsItIsRead) {
  const auto config = read_language_model(fixture("untied") + "/config.json");
  const nlohmann::ordered_json json = to_json(config);
  const auto again = parse_language_model(formats::ConfigReader(json, "config"));
  EXPECT_EQ(to_json(again), json);
  EXPECT_EQ(again.dilated_heads, 4);
  EXPECT_EQ(again.receptive_field(), 5 + 200 + 36);
}

TEST(LanguageModel, ConfigsThatContradictThemselvesAreRefused) {
  struct Case {
    const char *key, *value;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {"model_type", "\"bert\"", {"model_type", "longformer-character-lm", "bert"}},
      {"alphabet", "\"greek\"", {"alphabet", "bytes or text8", "greek"}},
      {"vocab_size", "256", {"vocab_size", "27", "text8", "256"}},
      {"hidden_size", "25", {"hidden_size", "even", "25"}},
      {"windows", "[5, 100]", {"windows", "3 numbers", "[5,100]"}},
      {"windows", "[5, 100, 0]", {"windows", "0"}},
      {"windows", "[5, 100, 16000000]", {"layer 2", "reach"}},
      {"dilations", "[0, 1, -1]", {"dilations", "-1"}},
      {"dilated_heads", "5", {"dilated_heads", "5"}},
      {"dropout", "1", {"dropout", "below 1"}},
      {"layer_norm_eps", "0", {"layer_norm_eps", "0"}}};
  const nlohmann::ordered_json good = formats::read_json(fixture("tied") + "/config.json");
  for (const Case& wrong : cases) {
    nlohmann::ordered_json json = good;
    json[wrong.key] = nlohmann::ordered_json::parse(wrong.value);
    expect_error(
        error_of([&] { parse_language_model(formats::ConfigReader(json, "config.json")); }),
        wrong.parts);
  }
}

TEST(Characters, AlphabetsReadBackAndRefuseOthers) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  text::check_characters(text::Alphabet::bytes, bytes, "bytes");
  const auto ids = text::encode_characters(text::Alphabet::bytes, bytes);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(ids[i], static_cast<std::int32_t>(i));
    EXPECT_EQ(text::decode_character(text::Alphabet::bytes, ids[i]), bytes[i]);
  }
  const auto letters = text::encode_characters(text::Alphabet::text8, "a z");
  EXPECT_EQ(letters, (std::vector<std::int32_t>{1, 0, 26}));
  EXPECT_EQ(text::decode_character(text::Alphabet::text8, 26), 'z');
  expect_error(error_of([] { text::check_characters(text::Alphabet::text8, "ab C", "file.txt"); }),
               {"file.txt", "byte 3", "text8", "0x43"});
}

TEST(Characters, CleanUpIsThatOfTheScriptOfText8) {
  const std::string folder = fixture("text8/");
  EXPECT_EQ(text::text8_of(formats::read_file(folder + "dump.xml")),
            formats::read_file(folder + "letters.txt"));
  EXPECT_EQ(text::text8_of(""), "");
  EXPECT_EQ(text::text8_of("no page at all"), "");
}

}  // namespace
}  // namespace longformer::models::character_lm_test
