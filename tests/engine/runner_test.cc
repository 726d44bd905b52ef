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

#include "engine/run/document_states.h"
#include "engine/run/document_stream.h"
#include "engine/run/model_implementation.h"
#include "error_testing.h"
#include "fixtures.h"
#include "longformer/embedding.h"
#include "longformer/generation.h"
#include "longformer/language_model.h"
#include "longformer/report.h"
#include "longformer/search.h"
#include "longformer/tasks.h"
#include "tasks/multi_hop/multi_hop_reader.h"
#include "temporary_folder.h"

namespace longformer::runner_test {
namespace {

std::string fixture(const std::string& name) { return (fixtures_folder() / name).string(); }

engine::TokenRow row_of(std::size_t size, std::int32_t seed) {
  engine::TokenRow row;
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

/// The states of one row by the encoder alone, [n, D].
Tensor encoded(const Model::Implementation& model, const models::Sequence& row) {
  models::BatchBuilder builder(model.config);
  builder.add(row, "row");
  const Turn turn = model.turn();
  const Tensor hidden = model.encoder.forward(model.context(), builder.finish());
  Tensor states(hidden.shape(), hidden.dtype());
  const std::vector<ops::RowRange> all = {{0, hidden.rows()}};
  ops::copy_rows(hidden, all, states);
  return states;
}

double difference(const Tensor& a, const Tensor& b) {
  const std::vector<float> left = a.to_floats(), right = b.to_floats();
  if (left.size() != right.size()) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const double here = std::abs(static_cast<double>(left[i]) - right[i]);
    largest = here <= largest ? largest : here;
  }
  return largest;
}

/// A row whose states are wanted, and memory for them.
struct WantedRow {
  WantedRow(const Model::Implementation& model, std::size_t size, std::int32_t seed)
      : row(row_of(size, seed)),
        states({std::ssize(row.ids), model.config.hidden_size}, model.dtype) {}

  Work work() const { return {.row = row, .ranges = tokens, .states = states}; }

  engine::TokenRow row;
  Tensor states;
  std::vector<ops::RowRange> tokens = {{0, std::ssize(row.ids)}};
};

template <typename Call>
void from_threads(int count, Call&& call) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back([&call, t] { call(t); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Wave, HoldsAsManyTokensAsItMay) {
  const engine::TokenRow row = row_of(4, 0), longer = row_of(9, 0);
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
  const std::vector<engine::TokenRow> rows = {row_of(5, 1), row_of(42, 2), row_of(7, 3)};
  const std::vector<ops::RowRange> ranges = {{0, 1}, {1, 4}};
  Wave wave(Wanted::sums, 100);
  for (const engine::TokenRow& row : rows) wave.add({row, ranges});
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
  const engine::TokenRow row = row_of(20, 1);
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
  std::vector<std::vector<engine::TokenRow>> rows(kCallers);
  std::vector<std::vector<RowResult>> expected(kCallers), found(kCallers);
  for (int caller = 0; caller < kCallers; ++caller) {
    auto& mine = rows[static_cast<std::size_t>(caller)];
    // One row of every caller is longer than the model takes.
    for (int i = 0; i < kRows; ++i) {
      const int size = i == 7 ? 42 : 2 + (i * 5 + caller) % 30;
      mine.push_back(row_of(static_cast<std::size_t>(size), caller + i));
    }
    for (const engine::TokenRow& row : mine) {
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
  const std::vector<engine::TokenRow> rows = {row_of(5, 1), row_of(9, 2), row_of(42, 3)};
  std::vector<RowResult> expected, found(3);
  for (const engine::TokenRow& row : rows) {
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

TEST(Runner, APassLendsItsTurnBetweenLayers) {
  const Model model = Model::load(fixture("tiny_longformer_classifier"), {.threads = 1});
  const Model::Implementation& own = model.implementation();
  Runner& runner = own.runner;
  const engine::TokenRow row = row_of(30, 1), short_row = row_of(4, 2);
  const RowResult expected = alone(runner, Wanted::logits, {.row = row});
  const RowResult short_expected = alone(runner, Wanted::logits, {.row = short_row});
  Wave wave(Wanted::logits, 90000);
  while (wave.add({.row = row})) continue;
  std::atomic<bool> ended = false;
  std::thread book([&] {
    const std::vector<RowResult> found = runner.run(wave);
    ended = true;
    for (const std::size_t i : {std::size_t{0}, found.size() / 2, found.size() - 1}) {
      ASSERT_EQ(found[i].values.size(), expected.values.size());
      for (std::size_t c = 0; c < expected.values.size(); ++c) {
        EXPECT_TRUE(std::abs(found[i].values[c] - expected.values[c]) <= 1e-5);
      }
    }
  });
  while (runner.passes() < 3) std::this_thread::yield();
  EXPECT_EQ(alone(runner, Wanted::logits, {.row = short_row}).values, short_expected.values);
  EXPECT_FALSE(ended) << "the short call waited for the whole pass";
  book.join();
}

TEST(PassTimes, AreALineThroughThePasses) {
  PassTimes times;
  EXPECT_EQ(times.seconds_of(100), 0);
  EXPECT_EQ(times.tokens_in(1), 0);
  times.add(100, 0.1);
  EXPECT_NEAR(times.seconds_of(300), 0.3, 1e-9);
  for (int i = 0; i < 50; ++i) {
    times.add(16, 0.008 + 16 * 0.0009);
    times.add(512, 0.008 + 512 * 0.0009);
  }
  EXPECT_NEAR(times.seconds_of(4096), 0.008 + 4096 * 0.0009, 0.02);
  EXPECT_NEAR(static_cast<double>(times.tokens_in(0.05)), (0.05 - 0.008) / 0.0009, 3);
  // Passes that got slower count soon.
  for (int i = 0; i < 50; ++i) {
    times.add(16, 0.016 + 16 * 0.0018);
    times.add(512, 0.016 + 512 * 0.0018);
  }
  EXPECT_NEAR(times.seconds_of(1000), 0.016 + 1000 * 0.0018, 0.02);
}

class States : public testing::TestWithParam<const char*> {
 protected:
  Model load(const std::string& name) const {
    return Model::load(fixture(name), {.dtype = GetParam()});
  }
};

TEST_P(States, AreThoseOfTheEncoder) {
  const Model model = load("tiny_longformer_classifier");
  const Model::Implementation& own = model.implementation();
  engine::TokenRow row = row_of(20, 1);
  row.global_positions = {0, 7};
  const Tensor expected =
      encoded(own, {.ids = row.ids, .types = row.types, .globals = *row.global_positions});
  Tensor states({8, own.config.hidden_size}, own.dtype);
  const std::vector<ops::RowRange> some = {{0, 1}, {3, 9}, {19, 20}};
  const RowResult result =
      alone(own.runner, Wanted::states, {.row = row, .ranges = some, .states = states});
  EXPECT_EQ(result.error, "");
  EXPECT_TRUE(result.values.empty());
  EXPECT_TRUE(states.slice_rows(0, 1).equals(expected.slice_rows(0, 1)));
  EXPECT_TRUE(states.slice_rows(1, 6).equals(expected.slice_rows(3, 6)));
  EXPECT_TRUE(states.slice_rows(7, 1).equals(expected.slice_rows(19, 1)));
}

TEST_P(States, HavePositionsAndMask) {
  const Model model = load("tiny_led");
  const Model::Implementation& own = model.implementation();
  const WantedRow wanted(own, 30, 4);
  std::vector<std::int32_t> positions, mask(30, 1);
  for (std::int32_t t = 0; t < 30; ++t) positions.push_back(3 + t % 16);
  mask[28] = mask[29] = 0;
  Work work = wanted.work();
  work.positions = positions;
  work.mask = mask;
  EXPECT_EQ(alone(own.runner, Wanted::states, work).error, "");
  const Tensor expected =
      encoded(own, {.ids = wanted.row.ids, .positions = positions, .mask = mask});
  EXPECT_TRUE(wanted.states.equals(expected));
  EXPECT_FALSE(wanted.states.equals(encoded(own, {.ids = wanted.row.ids})));
}

TEST_P(States, OfADocumentAreThoseOfItsRows) {
  const Model model = load("tiny_longformer_classifier");
  const Model::Implementation& own = model.implementation();
  const std::vector<engine::TokenRow> rows = {row_of(20, 1), row_of(9, 2), row_of(33, 3)};
  std::vector<std::int64_t> done;
  const auto note = [&](const Progress& progress) {
    done.push_back(progress.tokens_done);
    EXPECT_EQ(progress.tokens_total, 62);
  };
  const Tensor states = states_of(own, rows, {.batch_tokens = 30, .progress = note});
  EXPECT_EQ(done, (std::vector<std::int64_t>{29, 62}));
  EXPECT_EQ(own.runner.passes(), 2);
  EXPECT_EQ(states.dtype(), own.dtype);
  Index first = 0;
  for (const engine::TokenRow& row : rows) {
    const Index size = std::ssize(row.ids);
    const Tensor expected = encoded(own, {.ids = row.ids, .types = row.types});
    EXPECT_TRUE(difference(states.slice_rows(first, size), expected) <= 1e-5);
    first += size;
  }
}

TEST_P(States, OfCallersThatWaitTogetherAreOnePass) {
  const Model model = load("tiny_longformer_classifier");
  const Model::Implementation& own = model.implementation();
  Runner& runner = own.runner;
  const std::vector<WantedRow> rows = {{own, 20, 1}, {own, 31, 2}, {own, 42, 3}, {own, 9, 4}};
  // A first pass tells that all rows together take little time.
  alone(runner, Wanted::states, rows[0].work());
  std::vector<RowResult> found(rows.size());
  std::vector<std::thread> callers;
  {
    const Turn turn = runner.turn();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      callers.emplace_back([&, i] {
        Wave wave(Wanted::states, 200);
        wave.add(rows[i].work());
        found[i] = runner.run(wave).at(0);
      });
    }
    while (runner.waiting() < rows.size()) std::this_thread::yield();
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runner.passes(), 2);
  EXPECT_NE(found[2].error.find("at most 41 tokens, found 42"), std::string::npos);
  for (const std::size_t i : {0, 1, 3}) {
    EXPECT_EQ(found[i].error, "");
    const engine::TokenRow& row = rows[i].row;
    const Tensor expected = encoded(own, {.ids = row.ids, .types = row.types});
    EXPECT_TRUE(difference(rows[i].states, expected) <= 1e-5) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, States, testing::Values("fp32", "bf16"),
                         [](const auto& one) { return std::string(one.param); });

TEST(DocumentStates, AShortRequestRunsBetweenTwoWaves) {
  const Model model = Model::load(fixture("tiny_longformer_classifier"));
  const Model::Implementation& own = model.implementation();
  Runner& runner = own.runner;
  const std::vector<engine::TokenRow> rows(5, row_of(20, 1));
  const engine::TokenRow short_row = row_of(3, 2);
  std::thread document, caller;
  std::latch answered(1);
  std::vector<std::int64_t> passes;
  {
    const Turn turn = runner.turn();
    document = std::thread([&] {
      const auto note = [&](const Progress&) {
        if (passes.empty()) answered.wait();
        passes.push_back(runner.passes());
      };
      states_of(own, rows, {.batch_tokens = 20, .progress = note});
    });
    while (runner.waiting() < 1) std::this_thread::yield();
    caller = std::thread([&] {
      alone(runner, Wanted::logits, {.row = short_row});
      answered.count_down();
    });
    while (runner.waiting() < 2) std::this_thread::yield();
  }
  document.join();
  caller.join();
  // The first one is the document's, the second one is the short request's.
  EXPECT_EQ(passes, (std::vector<std::int64_t>{2, 3, 4, 5, 6}));
}

TEST(DocumentStates, ARowThatIsRefusedIsTheErrorOfItsDocument) {
  const Model model = Model::load(fixture("tiny_longformer_classifier"));
  const std::vector<engine::TokenRow> rows = {row_of(20, 1), row_of(42, 2), row_of(9, 3)};
  expect_error(error_of([&] { states_of(model.implementation(), rows, {}); }),
               {"at most 41 tokens", "found 42"});
}

TEST(DocumentStates, OfThreadsAreAsAlone) {
  class Stop {};
  const Model model = Model::load(fixture("tiny_longformer_classifier"), {.threads = 2});
  const Model::Implementation& own = model.implementation();
  std::vector<engine::TokenRow> rows;
  for (std::int32_t i = 0; i < 12; ++i) rows.push_back(row_of(at(3 + i * 11 % 30), i));
  const Tensor expected = states_of(own, rows, {});
  const auto run = [&](std::int64_t batch_tokens) {
    const Tensor found = states_of(own, rows, {.batch_tokens = batch_tokens});
    EXPECT_TRUE(difference(found, expected) <= 1e-5);
  };
  from_threads(4, [&](int caller) {
    if (caller < 3) {
      for (int i = 0; i < 20; ++i) run(20 + 40 * caller);
      return;
    }
    // An interruption ends the work of its caller alone.
    const auto run_until_interrupted = [&] {
      const Interruption interruption([] { throw Stop(); });
      for (int i = 0; i < 1000000; ++i) run(400);
    };
    for (int i = 0; i < 3; ++i) EXPECT_THROW(run_until_interrupted(), Stop);
  });
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

TEST(Callers, CoreferenceFindsWhatItFindsAlone) {
  const CoreferenceResolver resolver = CoreferenceResolver::load(fixture("coreference"));
  std::vector<std::string> texts, expected;
  for (int i = 0; i < 4; ++i) {
    std::string& text = texts.emplace_back();
    for (int sentence = 0; sentence <= i; ++sentence) {
      text += "he was in the house . she was with him at the house and from her . ";
    }
  }
  ResolveOptions options;
  options.batch_tokens = 30;
  for (const std::string& text : texts)
    expected.push_back(to_json(resolver.resolve(text, options)));
  EXPECT_NE(expected[0].find("\"begin\""), std::string::npos);
  from_threads(4, [&](int caller) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::size_t mine = (i + at(caller)) % texts.size();
      EXPECT_EQ(to_json(resolver.resolve(texts[mine], options)), expected[mine]);
    }
  });
}

/// The tokens of a BERT, the last of which are the marks of questions over paragraphs.
Tokenizer multi_hop_tokenizer(const TemporaryFolder& folder, std::int64_t tokens) {
  std::vector<std::string> words;
  std::ifstream known(fixture("tiny_bert") + "/vocab.txt");
  for (std::string word; std::getline(known, word);) words.push_back(word);
  words.resize(at(tokens) - tasks::kMultiHopMarks.size());
  words.insert(words.end(), tasks::kMultiHopMarks.begin(), tasks::kMultiHopMarks.end());
  std::ofstream file(folder.path() / "vocab.txt");
  for (const std::string& word : words) file << word << '\n';
  file.close();
  std::filesystem::copy(fixture("tiny_bert") + "/tokenizer_config.json", folder.path());
  return Tokenizer::load(folder.path().string(), tasks::kMultiHopMarks);
}

TEST(Callers, QuestionsOverParagraphsGetTheAnswersTheyGetAlone) {
  const Model model = Model::load(fixture("tiny_longformer_multi_hop"));
  const TemporaryFolder folder;
  const MultiHopAnswerer answerer(model, multi_hop_tokenizer(folder, model.info().vocabulary_size));
  MultiHopAnswerOptions options;
  options.too_long = TooLong::split;
  options.batch_tokens = 50;
  std::vector<MultiHopQuestion> questions;
  for (int i = 0; i < 5; ++i) {
    MultiHopQuestion& question = questions.emplace_back();
    question.question = "was he in the house";
    for (int p = 0; p <= i; ++p) {
      question.paragraphs.push_back(
          {.title = "the house", .sentences = {"she was in it .", "he was not with her ."}});
    }
  }
  const auto said_of = [&](const MultiHopQuestion& question) {
    const MultiHopOutcome outcome = answerer.answer(question, options);
    EXPECT_EQ(outcome.error, "");
    return outcome;
  };
  std::vector<MultiHopOutcome> expected;
  for (const MultiHopQuestion& question : questions) expected.push_back(said_of(question));
  EXPECT_GT(expected.back().segments, 1);
  from_threads(4, [&](int caller) {
    for (std::size_t i = 0; i < questions.size(); ++i) {
      const std::size_t mine = (i + at(caller)) % questions.size();
      const MultiHopOutcome found = said_of(questions[mine]);
      EXPECT_EQ(found.answer, expected[mine].answer);
      EXPECT_TRUE(std::abs(found.logit - expected[mine].logit) <= 1e-4);
    }
  });
}

TEST(Callers, TextsAboutDocumentsAreThoseWrittenAlone) {
  const TemporaryFolder folder;
  std::filesystem::copy(fixture("tiny_led"), folder.path() / "led");
  for (const char* file : {"vocab.json", "merges.txt"}) {
    std::filesystem::copy(fixture("tiny_roberta/") + file, folder.path() / "led" / file);
  }
  const std::string led = (folder.path() / "led").string();
  std::vector<std::string> texts;
  for (int i = 0; i < 5; ++i) {
    std::string& text = texts.emplace_back();
    for (int word = 0; word < 10 + 20 * i; ++word)
      text += word % 3 == i % 3 ? "the " : "house and ";
  }
  GenerationRequest request;
  request.options.max_length = 12;
  request.max_source_tokens = 64;
  request.too_long = TooLong::split;
  request.stride = 8;
  request.together = 2;
  const auto expected = TextGenerator::load(led).generate(texts, request);
  EXPECT_GT(expected.back().segments, 1);
  // Threads also meet at the tokenizer, which is read for the first text.
  const TextGenerator generator = TextGenerator::load(led);
  from_threads(4, [&](int) {
    const auto found = generator.generate(texts, request);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(found[i].error, "");
      EXPECT_EQ(found[i].texts.at(0).ids, expected[i].texts.at(0).ids);
    }
  });
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
