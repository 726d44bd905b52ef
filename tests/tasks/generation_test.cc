// The rules and searches of generation without a model, against transformers' own generate() on a
// table of logits (docs/spec/led-and-generation.md#b14, tests/fixtures/make_generation_cases.py).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>

#include "core/error.h"
#include "fixtures.h"
#include "formats/json.h"
#include "tasks/writing/text_search.h"

namespace longformer::tasks::generation_test {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;

/// Logits that depend on the length of a text and its last token.
class StubModel {
 public:
  StubModel(Index vocab_size, double shift) : vocab_size_(vocab_size), shift_(shift) {}

  void logits(std::span<const std::int32_t> ids, std::span<float> to) const {
    const Index row = (std::ssize(ids) - 1) * vocab_size_ + ids.back();
    for (Index x = 0; x < vocab_size_; ++x) {
      const auto i = static_cast<double>(row * vocab_size_ + x);
      to[at(x)] = static_cast<float>(2.0 * std::sin(1 + 0.7 * i + 1.3 * shift_));
    }
    to[2] += 2.0f;
  }
  Index vocab_size() const { return vocab_size_; }

 private:
  Index vocab_size_;
  double shift_;
};

std::vector<FoundText> written(const StubModel& model, const GenerationOptions& options,
                               std::uint64_t seed = 0, const Ids& source = {0, 3, 4, 3, 5, 2}) {
  GenerationSettings settings = generation_settings(
      options, {}, {.vocab_size = model.vocab_size(), .max_tokens = 64}, nullptr);
  settings.seed = seed;
  const Ids prompt = {settings.start_token};
  const auto search = start_search(settings, {.prompt = prompt, .source = source});
  while (!search->done()) {
    std::vector<float> logits(at(search->rows() * model.vocab_size()));
    for (Index row = 0; row < search->rows(); ++row) {
      model.logits(search->ids(row),
                   std::span(logits).subspan(at(row * model.vocab_size()), at(model.vocab_size())));
    }
    search->step(logits);
  }
  return search->found();
}

GenerationOptions usual() {
  GenerationOptions options;
  options.decoder_start_token_id = 2;
  options.eos_token_id = Ids{2};
  options.max_length = 7;
  return options;
}

struct Golden {
  std::string options;
  std::vector<Ids> texts;
  std::vector<double> scores = {};
};

TEST(Generation, MeetsTheTableOfTheSpecification) {
  const std::vector<Golden> table = {
      {R"({})", {{2, 0, 2}}},
      {R"({"min_length": 5})", {{2, 0, 0, 5, 1, 0, 2}}},
      {R"({"repetition_penalty": 1.5})", {{2, 0, 2}}},
      {R"({"no_repeat_ngram_size": 2})", {{2, 0, 2}}},
      {R"({"no_repeat_ngram_size": 1})", {{2, 0, 1, 6, 4, 5, 3}}},
      {R"({"num_beams": 2})", {{2, 0, 2}}, {-0.791655}},
      {R"({"num_beams": 2, "length_penalty": 2.0})", {{2, 0, 0, 5, 2}}, {-0.208564}},
      {R"({"num_beams": 2, "length_penalty": 2.0, "early_stopping": true})",
       {{2, 0, 2}},
       {-0.395827}},
      {R"({"num_beams": 2, "length_penalty": 2.0, "early_stopping": "never"})",
       {{2, 0, 1, 6, 4, 5, 2}},
       {-0.170404}},
      {R"({"num_beams": 2, "length_penalty": 0.0})", {{2, 2}}, {-1.283321}},
      {R"({"num_beams": 2, "length_penalty": -1.0, "early_stopping": true})",
       {{2, 2}},
       {-1.283321}},
      {R"({"num_beams": 3, "num_return_sequences": 3})",
       {{2, 0, 2}, {2, 0, 0, 5, 2}, {2, 0, 1, 6, 2}},
       {-0.791655, -0.834255, -0.978444}},
      {R"({"num_beams": 3, "num_return_sequences": 3, "early_stopping": true})",
       {{2, 0, 2}, {2, 1, 2}, {2, 2}},
       {-0.791655, -1.060681, -1.283321}},
      {R"({"num_beams": 2, "num_return_sequences": 2, "eos_token_id": [2, 5]})",
       {{2, 0, 2}, {2, 0, 0, 5}},
       {-0.791655, -1.040857}},
      {R"({"num_beams": 2, "repetition_penalty": 1.5})", {{2, 0, 2}}, {-0.980561}},
      {R"({"num_beams": 2, "no_repeat_ngram_size": 2, "min_length": 6})",
       {{2, 0, 1, 6, 4, 5, 2}},
       {-1.022424}},
      {R"({"num_beams": 2, "no_repeat_ngram_size": 1, "renormalize_logits": true})",
       {{2, 0, 1, 6, 4, 5, 3}},
       {-0.362452}},
      {R"({"num_beams": 2, "forced_bos_token_id": 0, "forced_eos_token_id": 2, "min_length": 6})",
       {{2, 0, 1, 6, 4, 5, 2}},
       {-0.843894}},
  };
  for (const Golden& golden : table) {
    GenerationOptions options = usual();
    const Json json = Json::parse(golden.options);
    const GenerationOptions given =
        parse_generation_options(formats::ConfigReader(json, "options"));
    for_each_generation_option(
        [](const char*, const char*, auto& mine, const auto& other) {
          if (other) mine = other;
        },
        options, given);
    const auto texts = written(StubModel(7, 3), options);
    ASSERT_EQ(texts.size(), golden.texts.size()) << golden.options;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(texts[i].ids, golden.texts[i]) << golden.options;
      ASSERT_EQ(texts[i].score.has_value(), !golden.scores.empty()) << golden.options;
      if (!texts[i].score) continue;
      EXPECT_NEAR(*texts[i].score, golden.scores[i], 2e-6) << golden.options;
    }
  }
}

struct Cases {
  Cases() {
    const auto path = fixtures_folder() / "generation" / "cases.json";
    json = formats::read_json(path.string());
    vocab_size = json["vocabulary"].get<Index>();
    source = json["source"].get<Ids>();
  }
  GenerationOptions options(const Json& one) const {
    GenerationOptions given =
        parse_generation_options(formats::ConfigReader(one["options"], "options"));
    given.decoder_start_token_id = 2;
    if (!given.eos_token_id) given.eos_token_id = Ids{2};
    return given;
  }
  Json json;
  Index vocab_size = 0;
  Ids source;
};

TEST(Generation, WritesWhatTransformersWrites) {
  const Cases cases;
  std::size_t compared = 0;
  for (const Json& one : cases.json["texts"]) {
    const StubModel model(cases.vocab_size, one["shift"].get<double>());
    const auto texts = written(model, cases.options(one), 0, cases.source);
    ASSERT_EQ(texts.size(), one["texts"].size()) << one.dump();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(texts[i].ids, one["texts"][i].get<Ids>()) << one.dump();
      ++compared;
      if (!one.contains("scores")) continue;
      EXPECT_NEAR(texts[i].score.value_or(NAN), one["scores"][i].get<double>(), 2e-5) << one.dump();
    }
  }
  EXPECT_GE(compared, 300u);
}

TEST(Generation, DrawsFromTheProbabilitiesOfTransformers) {
  const Cases cases;
  for (const Json& one : cases.json["draws"]) {
    const StubModel model(cases.vocab_size, one["shift"].get<double>());
    const GenerationSettings settings = generation_settings(
        cases.options(one), {}, {.vocab_size = cases.vocab_size, .max_tokens = 64}, nullptr);
    const LogitsRules rules(settings, cases.source, 1);
    const Ids ids = one["ids"].get<Ids>();
    for (std::size_t step = 0; step < one["scores"].size(); ++step) {
      std::vector<float> scores(at(cases.vocab_size));
      const std::span<const std::int32_t> so_far = std::span(ids).first(step + 1);
      model.logits(so_far, scores);
      rules.apply(so_far, scores);
      for (std::size_t id = 0; id < scores.size(); ++id) {
        const Json& expected = one["scores"][step][id];
        EXPECT_EQ(std::isfinite(scores[id]), !expected.is_null()) << one.dump() << step << id;
        if (expected.is_null()) continue;
        EXPECT_NEAR(scores[id], expected.get<double>(), 1e-5) << one.dump();
      }
    }
  }
}

/// Chi-square of 20,000 draws of whole texts against their exact probabilities.
TEST(Generation, DrawsTextsAsOftenAsTheyAreLikely) {
  const StubModel model(7, 3);
  GenerationOptions options = usual();
  options.max_length = 4;
  options.do_sample = true;
  options.top_k = 4;
  const GenerationSettings settings =
      generation_settings(options, {}, {.vocab_size = 7, .max_tokens = 64}, nullptr);
  const LogitsRules rules(settings, {}, 1);
  std::map<Ids, double> likely;
  const std::function<void(const Ids&, double)> follow = [&](const Ids& ids, double p) {
    if (ids.size() == 4 || (ids.size() > 1 && ids.back() == 2)) {
      likely[ids] += p;
      return;
    }
    std::vector<float> scores(7);
    model.logits(ids, scores);
    rules.apply(ids, scores);
    log_softmax(scores);
    for (std::int32_t id = 0; id < 7; ++id) {
      if (!std::isfinite(scores[at(id)])) continue;
      Ids longer = ids;
      longer.push_back(id);
      follow(longer, p * std::exp(scores[at(id)]));
    }
  };
  follow({2}, 1);
  constexpr int kDraws = 20000;
  std::map<Ids, int> drawn;
  for (int i = 0; i < kDraws; ++i) {
    ++drawn[written(model, options, static_cast<std::uint64_t>(i))[0].ids];
  }
  double chi_square = 0;
  for (const auto& [ids, p] : likely) {
    const double expected = p * kDraws;
    chi_square += (drawn[ids] - expected) * (drawn[ids] - expected) / expected;
  }
  EXPECT_EQ(drawn.size(), likely.size());
  // Mean and deviation of the distribution; five deviations above it are p < 1e-5.
  const double freedom = static_cast<double>(likely.size()) - 1;
  EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2 * freedom));
}

TEST(Generation, TextsOfOneDrawDependOnTheirSeedAlone) {
  GenerationOptions options = usual();
  options.do_sample = true;
  options.num_return_sequences = 4;
  const auto once = written(StubModel(7, 3), options, 5);
  const auto again = written(StubModel(7, 3), options, 5);
  ASSERT_EQ(once.size(), 4u);
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_EQ(once[i].ids, again[i].ids);
  EXPECT_NE(once[0].ids, once[1].ids);
}

TEST(Generation, RefusesWhatTransformersRefuses) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {R"({"num_return_sequences": 2})", "num_return_sequences: expected 1"},
      {R"({"num_beams": 2, "num_return_sequences": 3})", "at most num_beams = 2"},
      {R"({"max_new_tokens": 0})", "max_new_tokens: expected at least 1"},
      {R"({"top_k": -1})", "top_k"},
      {R"({"min_p": 1.5})", "min_p"},
      {R"({"temperature": 0.0, "do_sample": true})", "temperature"},
      {R"({"temperature": -0.5})", "temperature"},
      {R"({"early_stopping": "sometimes"})", "early_stopping"},
      {R"({"bad_words_ids": [[7]]})", "bad_words_ids: expected ids from 0 to 6, found 7"},
      {R"({"forced_bos_token_id": 3, "suppress_tokens": [3]})", "suppress_tokens"},
      {R"({"max_length": 65})", "at most 64 tokens"},
      {R"({"max_length": 1})", "more than the 1 tokens of the prompt"},
      {R"({"num_beams": "two"})", "num_beams: expected an integer, found \"two\""},
  };
  for (const auto& [json_text, part] : refused) {
    const Json json = Json::parse(json_text);
    try {
      GenerationOptions options = parse_generation_options(formats::ConfigReader(json, "options"));
      options.decoder_start_token_id = 2;
      generation_settings(options, {}, {.vocab_size = 7, .max_tokens = 64}, nullptr);
      ADD_FAILURE() << json_text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST(Generation, ValuesOfSamplingStopNothingWithoutIt) {
  const auto parsed = [](const std::string& text) {
    const Json json = Json::parse(text);
    return parse_generation_options(formats::ConfigReader(json, "options"));
  };
  const GenerationModel model = {.vocab_size = 7, .max_tokens = 64};
  for (const char* sampling :
       {R"("temperature": 0.0)", R"("temperature": -1)", R"("top_k": -1)", R"("top_p": -0.1)",
        R"("min_p": 1.5)", R"("typical_p": 0.0)", R"("top_h": 2)"}) {
    const std::string text = fmt::format(R"({{"decoder_start_token_id": [2], {}}})", sampling);
    std::vector<std::string> notes;
    const auto note = [&notes](const std::string& one) { notes.push_back(one); };
    const auto settings = generation_settings({}, parsed(text), model, note);
    EXPECT_FALSE(settings.do_sample);
    EXPECT_EQ(settings.start_token, 2);
    ASSERT_EQ(notes.size(), 1u) << text;
    EXPECT_NE(notes[0].find("without effect"), std::string::npos) << notes[0];
    GenerationOptions call;
    call.do_sample = true;
    EXPECT_THROW(generation_settings(call, parsed(text), model, note), Error) << text;
  }
  std::vector<std::string> notes;
  generation_settings(parsed(R"({"temperature": 0})"), parsed(R"({"decoder_start_token_id": 2})"),
                      model, [&notes](const std::string& one) { notes.push_back(one); });
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("temperature: without effect"), std::string::npos) << notes[0];
  EXPECT_THROW(parsed(R"({"decoder_start_token_id": [2, 3]})"), Error);
}

TEST(Generation, OneBeamIsGreedyAndDrawingWithTopKOneToo) {
  GenerationOptions options = usual();
  options.min_length = 5;
  const auto greedy = written(StubModel(7, 3), options);
  options.do_sample = true;
  options.top_k = 1;
  EXPECT_EQ(written(StubModel(7, 3), options)[0].ids, greedy[0].ids);
}

}  // namespace
}  // namespace longformer::tasks::generation_test
