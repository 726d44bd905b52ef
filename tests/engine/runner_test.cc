// Several callers of one model: results as alone, in order, and no caller waits for all that
// another one has.
//
// Reruns: tsan
#include "engine/run/runner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <latch>
#include <optional>
#include <thread>

#include "engine/run/document_stream.h"
#include "engine/run/model_implementation.h"
#include "fixtures.h"
#include "longformer/embedding.h"
#include "longformer/language_model.h"
#include "longformer/report.h"
#include "longformer/search.h"
#include "longformer/tasks.h"

namespace longformer::runner_test {
namespace {

std::string fixture(const std::string& name) { return (fixtures_folder() / name).string(); }

tasks::TokenRow row_of(std::size_t size, std::int32_t seed) {
  tasks::TokenRow row;
  for (std::size_t i = 0; i < size; ++i) {
    row.ids.push_back(5 + (seed + 3 * static_cast<std::int32_t>(i)) % 17);
  }
  row.types.assign(size, 0);
  return row;
}

RowResult alone(Runner& runner, Wanted wanted, const Work& work) {
  Wave wave(wanted, 1);
  EXPECT_TRUE(wave.add(work));
  return runner.run(wave).at(0);
}

template <typename Call>
void from_threads(int count, Call&& call) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back([&call, t] { call(t); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Wave, HoldsAsManyTokensAsItMay) {
  const tasks::TokenRow row = row_of(4, 0), longer = row_of(9, 0);
  Wave wave(Wanted::logits, 8);
  EXPECT_TRUE(wave.empty());
  EXPECT_TRUE(wave.add({.row = row}));
  EXPECT_TRUE(wave.add({.row = row}));
  EXPECT_FALSE(wave.add({.row = row}));
  EXPECT_EQ(wave.tokens(), 8);
  Wave small(Wanted::logits, 8);
  EXPECT_TRUE(small.add({.row = longer})) << "one row is always taken";
  EXPECT_FALSE(small.add({.row = row}));
}

TEST(Runner, FoldsAndRefusesRowByRow) {
  const Model model = Model::load(fixture("tiny_longformer_classifier"));
  Runner& runner = model.implementation().runner;
  const std::vector<tasks::TokenRow> rows = {row_of(5, 1), row_of(42, 2), row_of(7, 3)};
  const std::vector<ops::RowRange> ranges = {{0, 1}, {1, 4}};
  Wave wave(Wanted::sums, 100);
  for (const tasks::TokenRow& row : rows) wave.add({row, ranges});
  const std::vector<RowResult> results = runner.run(wave);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(runner.passes(), 1) << "a row that the model refuses costs no second pass";
  EXPECT_NE(results[1].error.find("at most 41 tokens, found 42"), std::string::npos);
  EXPECT_TRUE(results[1].values.empty());
  const auto width = static_cast<std::size_t>(model.info().hidden_size);
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
    EXPECT_EQ(results[i].error, "");
    ASSERT_EQ(results[i].values.size(), 2 * width);
    const DocumentInput input{.ids = rows[i].ids,
                              .attention_mask = {},
                              .token_type_ids = {},
                              .position_ids = {},
                              .global_attention_mask = {}};
    const auto states = model.forward({&input, 1}, {.head = false})[0].last_hidden_state;
    for (std::size_t c = 0; c < width; ++c) {
      EXPECT_EQ(results[i].values[c], states[c]);
      const double sum =
          static_cast<double>(states[width + c]) + states[2 * width + c] + states[3 * width + c];
      EXPECT_TRUE(std::abs(results[i].values[width + c] - sum) <= 1e-5);
    }
  }
}

TEST(Runner, AnInterruptionEndsTheWorkOfItsCallerAlone) {
  class Stop {};
  const Model model = Model::load(fixture("tiny_longformer_classifier"), {.threads = 2});
  Runner& runner = model.implementation().runner;
  const std::vector<ops::RowRange> ranges = {{0, 2}};
  const tasks::TokenRow row = row_of(20, 1);
  Wave wave(Wanted::sums, 1000);
  while (wave.add({row, ranges})) continue;
  const std::vector<RowResult> expected = runner.run(wave);
  std::atomic<bool> ended = false;
  std::thread other([&] {
    while (!ended) EXPECT_EQ(runner.run(wave).at(0).values, expected[0].values);
  });
  const auto run_until_interrupted = [&] {
    const Interruption interruption([] { throw Stop(); });
    for (int i = 0; i < 1000000; ++i) runner.run(wave);
  };
  for (int i = 0; i < 5; ++i) EXPECT_THROW(run_until_interrupted(), Stop);
  ended = true;
  other.join();
  EXPECT_EQ(runner.run(wave).at(3).values, expected[3].values);
}

TEST(Runner, CallersGetTheirOwnResults) {
  const Model model = Model::load(fixture("tiny_longformer_classifier"));
  Runner& runner = model.implementation().runner;
  constexpr int kCallers = 6, kRows = 24;
  const std::vector<ops::RowRange> ranges = {{0, 2}};
  const auto wanted_of = [](int caller) {
    return std::array{Wanted::logits, Wanted::sums,
                      Wanted::maxima}[static_cast<std::size_t>(caller % 3)];
  };
  std::vector<std::vector<tasks::TokenRow>> rows(kCallers);
  std::vector<std::vector<RowResult>> expected(kCallers), found(kCallers);
  for (int caller = 0; caller < kCallers; ++caller) {
    auto& mine = rows[static_cast<std::size_t>(caller)];
    // One row of every caller is longer than the model takes.
    for (int i = 0; i < kRows; ++i) {
      const int size = i == 7 ? 42 : 2 + (i * 5 + caller) % 30;
      mine.push_back(row_of(static_cast<std::size_t>(size), caller + i));
    }
    for (const tasks::TokenRow& row : mine) {
      expected[static_cast<std::size_t>(caller)].push_back(
          alone(runner, wanted_of(caller), {row, ranges}));
    }
  }
  from_threads(kCallers, [&](int caller) {
    const auto& mine = rows[static_cast<std::size_t>(caller)];
    for (std::size_t next = 0; next < mine.size();) {
      Wave wave(wanted_of(caller), 60);
      while (next < mine.size() && wave.add({mine[next], ranges})) ++next;
      for (RowResult& result : runner.run(wave)) {
        found[static_cast<std::size_t>(caller)].push_back(std::move(result));
      }
    }
  });
  for (std::size_t caller = 0; caller < kCallers; ++caller) {
    ASSERT_EQ(found[caller].size(), static_cast<std::size_t>(kRows));
    for (std::size_t i = 0; i < kRows; ++i) {
      SCOPED_TRACE(fmt::format("caller {}, row {}", caller, i));
      EXPECT_EQ(found[caller][i].values, expected[caller][i].values);
      EXPECT_EQ(found[caller][i].error, expected[caller][i].error);
      EXPECT_EQ(found[caller][i].error.empty(), i != 7);
    }
  }
}

TEST(Runner, WavesThatWaitTogetherGetTheirOwnResults) {
  const Model model = Model::load(fixture("tiny_longformer_classifier"));
  Runner& runner = model.implementation().runner;
  const std::vector<tasks::TokenRow> rows = {row_of(5, 1), row_of(9, 2), row_of(42, 3)};
  std::vector<RowResult> expected, found(3);
  for (const tasks::TokenRow& row : rows) {
    expected.push_back(alone(runner, Wanted::logits, {.row = row}));
  }
  std::vector<std::thread> callers;
  {
    const Turn turn = runner.turn();
    for (std::size_t i = 0; i < 3; ++i) {
      callers.emplace_back([&, i] {
        Wave wave(Wanted::logits, 100);
        wave.add({.row = rows[i]});
        found[i] = runner.run(wave).at(0);
      });
    }
    while (runner.waiting() < 3) std::this_thread::yield();
  }
  for (std::thread& caller : callers) caller.join();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found[i].values, expected[i].values);
    EXPECT_EQ(found[i].error, expected[i].error);
  }
}

TEST(Turns, WhoAsksAgainGoesBehindThoseWhoWait) {
  Turns turns;
  std::atomic<bool> asks = false, served = false;
  std::thread other;
  {
    Turn turn(turns, 1);
    other = std::thread([&] {
      asks = true;
      const Turn mine(turns, 1);
      served = true;
    });
    while (!asks) std::this_thread::yield();
    // The other thread is about to wait; it is served before one who asks again and again.
    for (int i = 0; i < 1000000 && !served; ++i) {
      turn.pass([] { std::this_thread::yield(); });
    }
    EXPECT_TRUE(served);
  }
  other.join();
}

TEST(Callers, VerbsOfOneModelGiveWhatTheyGiveAlone) {
  const Classifier classifier = Classifier::load(fixture("tiny_longformer_classifier"));
  std::vector<std::string> texts;
  for (int i = 0; i < 40; ++i) {
    std::string text = "the";
    for (int w = 0; w < i % 9; ++w) text += w % 2 == 0 ? " of" : " and he";
    texts.push_back(text);
  }
  ClassifyOptions options;
  options.batch_tokens = 64;
  const auto expected = classifier.classify(texts, options);
  from_threads(4, [&](int) {
    const auto found = classifier.classify(texts, options);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].logits, expected[i].logits) << i;
    }
  });
}

TEST(Callers, EmbedAndSearchWhileOthersEmbed) {
  const Embedder embedder = Embedder::load(fixture("sentence_dense"));
  const std::vector<std::string> texts = {"the of and", "he was", "", "with the of and he was"};
  EmbedOptions options;
  options.batch_tokens = 8;
  const auto expected = embedder.embed(texts, options);
  SearchOptions passages;
  passages.passages.passage_tokens = 4;
  SearchIndex index(embedder, passages);
  index.add(embedder, "a", "the of and he was with the of and");
  const auto hits = index.query(embedder, {.question = "he was", .top_k = 2});
  from_threads(4, [&](int caller) {
    if (caller == 0) {
      const auto again = index.query(embedder, {.question = "he was", .top_k = 2});
      ASSERT_EQ(again.size(), hits.size());
      for (std::size_t i = 0; i < hits.size(); ++i) EXPECT_EQ(again[i].score, hits[i].score);
      return;
    }
    const auto found = embedder.embed(texts, options);
    for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(found[i].values, expected[i].values);
  });
}

TEST(Callers, OneDocumentDoesNotWaitForAnothersFile) {
  const Classifier classifier = Classifier::load(fixture("tiny_longformer_classifier"));
  // A file that ends only when the other caller has its result.
  std::atomic<bool> answered = false;
  std::latch running(1);
  ClassifyOptions options;
  options.batch_tokens = 20;
  std::thread endless([&] {
    std::size_t seen = 0;
    classifier.classify(
        [&]() -> std::optional<ClassifyInput> {
          if (answered) return std::nullopt;
          return ClassifyInput{.text = "the of and", .pair = {}};
        },
        [&](const ClassifyOutcome&) {
          if (seen++ == 0) running.count_down();
        },
        options);
  });
  running.wait();
  const std::vector<std::string> text = {"he was"};
  EXPECT_EQ(classifier.classify(text).size(), 1u);
  answered = true;
  endless.join();
}

TEST(Callers, TwoTextsAndAnEvaluationInterleave) {
  const std::string folder = fixture("character_lm/tied");
  const LanguageModel model = LanguageModel::load(folder);
  GenerateOptions options;
  options.characters = 60;
  const auto generate = [&](const std::string& prompt, const std::function<void()>& meanwhile) {
    std::string text;
    model.generate(prompt, options, [&](std::string_view character) {
      text += character;
      meanwhile();
      return true;
    });
    return text;
  };
  const std::string first = generate("the ", [] {}), second = generate("of a ", [] {});
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / fmt::format("runner_test_{}.txt", getpid());
  std::ofstream(file) << std::string(50, 'a') + " b c d e f " + std::string(50, 'g');
  LanguageModelEvaluation evaluation;
  evaluation.data.files = {file.string()};
  evaluation.part = TextPart::all;
  const double loss = model.evaluate(evaluation).loss;

  // Each waits in the middle until the other has got as far.
  std::latch half(2);
  const auto meet = [&half, count = 0]() mutable {
    if (++count == 30) half.arrive_and_wait();
  };
  std::string found[2];
  double found_loss = 0;
  from_threads(3, [&](int caller) {
    if (caller == 0) found[0] = generate("the ", meet);
    if (caller == 1) found[1] = generate("of a ", meet);
    if (caller == 2) found_loss = model.evaluate(evaluation).loss;
  });
  std::filesystem::remove(file);
  EXPECT_EQ(found[0], first);
  EXPECT_EQ(found[1], second);
  EXPECT_EQ(found_loss, loss);
}

}  // namespace
}  // namespace longformer::runner_test
