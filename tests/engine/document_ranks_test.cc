// One document over ranks, as threads: results are those of one process, and what is sent does not
// grow with the document.
//
// Reruns: tsan
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/run/model_implementation.h"
#include "error_testing.h"
#include "fixtures.h"
#include "longformer/embedding.h"
#include "longformer/model.h"
#include "longformer/ranks.h"
#include "longformer/tasks.h"
#include "rank_threads.h"
#include "temporary_folder.h"

namespace longformer::document_ranks_test {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr const char* kCommon =
    R"("vocab_size": 300, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3,
       "intermediate_size": 40, "max_position_embeddings": 3000, "initializer_range": 0.2)";
const std::string kLongformer =
    fmt::format(R"({{"model_type": "longformer", "attention_window": [8, 16, 4], {}}})", kCommon);
const std::string kDilated = fmt::format(
    R"({{"model_type": "longformer", "attention_window": 6, "attention_dilation": [1, 3, 2], {}}})",
    kCommon);
const std::string kSliding = fmt::format(
    R"({{"model_type": "modernbert", "local_attention": 8, "layer_types": ["sliding_attention",
         "sliding_attention", "sliding_attention"], {}}})",
    kCommon);

/// Calls `work` in each rank, with the options for its model.
std::vector<std::string> in_ranks(int count,
                                  const std::function<void(int, const LoadOptions&)>& work) {
  RankThreads ranks(count);
  std::vector<std::string> errors(static_cast<std::size_t>(count));
  const auto run = [&](int rank) {
    const RankThreads::Member member(ranks, rank);
    errors[static_cast<std::size_t>(rank)] =
        error_of([&] { work(rank, {.threads = 1, .ranks = &member}); });
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < count; ++rank) others.emplace_back(run, rank);
  run(0);
  for (std::thread& other : others) other.join();
  return errors;
}

void expect_no_error(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

struct Text {
  Ids ids, mask = {}, globals = {};

  explicit Text(int n, int seed = 0) {
    for (int i = 0; i < n; ++i) ids.push_back(3 + (seed + 7 * i + i * i % 11) % 290);
  }
  Text& masked() {
    for (std::size_t i = 0; i < ids.size(); ++i) mask.push_back(i % 13 == 5 ? 0 : 1);
    return *this;
  }
  Text& with_globals(const std::vector<int>& positions) {
    globals.assign(ids.size(), 0);
    const int n = static_cast<int>(ids.size());
    for (const int position : positions) {
      globals[static_cast<std::size_t>(position < 0 ? n + position : position)] = 1;
    }
    return *this;
  }
  DocumentInput input() const {
    return {.ids = ids,
            .attention_mask = mask,
            .token_type_ids = {},
            .position_ids = {},
            .global_attention_mask = globals};
  }
};

double difference(const std::vector<float>& a, const std::vector<float>& b, const Ids& mask) {
  EXPECT_EQ(a.size(), b.size());
  const std::size_t width = mask.empty() ? 1 : a.size() / mask.size();
  double most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    // Rows of masked tokens are unspecified.
    if (!mask.empty() && mask[i / width] == 0) continue;
    const double apart = std::abs(a[i] - b[i]);
    EXPECT_FALSE(std::isnan(apart));
    most = std::max(most, apart);
  }
  return most;
}

/// The largest difference of any hidden state from those of one process, over all ranks.
double apart(const std::string& config, const Text& text, int count,
             const std::string& dtype = "fp32") {
  const TemporaryFolder folder({{"config.json", config}});
  const auto states = [&](LoadOptions options) {
    options.dtype = dtype;
    const Model model = Model::random(folder.name() + "/config.json", options);
    const DocumentInput input = text.input();
    return model.forward({&input, 1}, {.hidden_states = true})[0];
  };
  const DocumentOutput one = states({.threads = 1});
  std::vector<double> most(static_cast<std::size_t>(count));
  expect_no_error(in_ranks(count, [&](int rank, const LoadOptions& options) {
    const DocumentOutput found = states(options);
    double& mine = most[static_cast<std::size_t>(rank)];
    mine = difference(found.last_hidden_state, one.last_hidden_state, text.mask);
    for (std::size_t layer = 0; layer < one.hidden_states.size(); ++layer) {
      mine = std::max(
          mine, difference(found.hidden_states.at(layer), one.hidden_states[layer], text.mask));
    }
  }));
  return *std::max_element(most.begin(), most.end());
}

}  // namespace

TEST(DocumentRanks, StatesAreThoseOfOneProcess) {
  for (const std::string& config : {kLongformer, kDilated, kSliding}) {
    for (const int n : {67, 301, 1031}) {
      for (const int count : {1, 2, 4}) {
        // Parts of long documents begin with tiles of attention, unless tiles skip tokens.
        const double most = n > 1000 && config != kDilated ? 0 : 1e-5;
        EXPECT_LE(apart(config, Text(n), count), most) << config << n << " " << count;
        EXPECT_LE(apart(config, Text(n).masked(), count), 1e-5) << config << n << " " << count;
      }
    }
  }
}

TEST(DocumentRanks, GlobalTokensSeeAllPartsAndAreSeenByAll) {
  for (const std::string& config : {kLongformer, kDilated}) {
    for (const int count : {2, 4}) {
      for (const std::vector<int>& globals :
           {std::vector<int>{0}, {-1}, {0, 1, 2, 17, 33, 150, 151, -1}, {160, 200}}) {
        EXPECT_LE(apart(config, Text(301).with_globals(globals), count), 1e-5) << count;
        EXPECT_LE(apart(config, Text(301).masked().with_globals(globals), count), 1e-5) << count;
      }
      // More than the size of a head.
      std::vector<int> many;
      for (int i = 0; i < 301; i += 9) many.push_back(i);
      EXPECT_LE(apart(config, Text(301).with_globals(many), count), 1e-5) << count;
    }
  }
}

TEST(DocumentRanks, HalfPrecisionIsSentAsItIs) {
  for (const int count : {2, 4}) {
    EXPECT_EQ(apart(kLongformer, Text(1031), count, "bf16"), 0);
    EXPECT_LE(apart(kLongformer, Text(1031).with_globals({0, 700}), count, "bf16"), 0.1);
  }
}

TEST(DocumentRanks, VectorsAndLogitsAreThoseOfOneProcess) {
  const auto folder = [](const char* name) { return (fixtures_folder() / name).string(); };
  const std::string text = "he was in the house and she was not in it , he said to her there";
  const auto vectors = [&](const LoadOptions& options) {
    const Embedder embedder = Embedder::load(folder("tiny_longformer_classifier"), options);
    std::vector<float> all;
    for (const Pooling pooling : {Pooling::mean, Pooling::max, Pooling::cls, Pooling::tokens}) {
      EmbedOptions wanted;
      wanted.pooling = pooling;
      const auto found = embedder.embed({&text, 1}, wanted)[0].values;
      all.insert(all.end(), found.begin(), found.end());
    }
    return all;
  };
  const auto classes = [&](const LoadOptions& options) {
    const Classifier classifier = Classifier::load(folder("tiny_longformer_classifier"), options);
    return classifier.classify({&text, 1})[0].logits;
  };
  const auto logits = [&](const LoadOptions& options) {
    const Model model = Model::load(folder("tiny_longformer_qa"), options);
    Text document(40, 2);
    for (std::int32_t& id : document.ids) id = 5 + id % 15;
    document.ids[9] = 3;
    const DocumentInput input = document.input();
    const DocumentOutput found = model.forward({&input, 1})[0];
    return found.start_logits;
  };
  for (const auto& results :
       {std::function<std::vector<float>(const LoadOptions&)>(vectors), {classes}, {logits}}) {
    const std::vector<float> one = results({.threads = 1});
    ASSERT_FALSE(one.empty());
    for (const int count : {2, 3}) {
      expect_no_error(in_ranks(count, [&](int, const LoadOptions& options) {
        EXPECT_LE(difference(results(options), one, {}), 1e-5);
      }));
    }
  }
}

TEST(DocumentRanks, VolumeDoesNotDependOnTheLength) {
  const TemporaryFolder folder({{"config.json", kLongformer}});
  const auto sent = [&](int n, bool has_globals) {
    std::vector<std::int64_t> bytes(4);
    expect_no_error(in_ranks(4, [&](int rank, const LoadOptions& options) {
      const Model model = Model::random(folder.name() + "/config.json", options);
      engine::TokenRow row;
      row.ids = Text(n).ids;
      row.types.assign(row.ids.size(), 0);
      if (has_globals) row.global_positions = std::vector<Index>{0, 5};
      const ops::RowRange all = {0, n};
      Wave wave(Wanted::sums, n);
      ASSERT_TRUE(wave.add({.row = row, .ranges = {&all, 1}}));
      EXPECT_EQ(model.implementation().runner.run(wave)[0].error, "");
      bytes[static_cast<std::size_t>(rank)] = model.bytes_sent();
    }));
    return bytes;
  };
  for (const bool has_globals : {false, true}) {
    EXPECT_EQ(sent(1024, has_globals), sent(2816, has_globals));
  }
  // Three layers, of which two ask the neighbours for 8 rows to the right and 64, a tile, to the
  // left; the sum of the rows, and the hashes of four ranks.
  EXPECT_EQ(sent(1024, false)[1], 2 * (64 + 8) * 24 * 4 + 24 * 4 + 4 * 8);
}

TEST(DocumentRanks, SaysWhichModelsAndDocumentsItDoesNotTake) {
  const TemporaryFolder folder({{"config.json", kLongformer}});
  const auto error = [&](const std::string& name, int n) {
    const auto errors = in_ranks(4, [&](int, const LoadOptions& options) {
      const Model model = name.empty() ? Model::random(folder.name() + "/config.json", options)
                                       : Model::load((fixtures_folder() / name).string(), options);
      const Text text(n);
      const DocumentInput input = text.input();
      model.forward({&input, 1});
    });
    for (const std::string& one : errors) EXPECT_EQ(one, errors[0]);
    return errors[0];
  };
  expect_error(error("tiny_bert", 40), {"ranks", "windows in all layers", "bert", "layer 0"});
  expect_error(error("tiny_modernbert", 40), {"ranks", "windows", "modernbert", "layer 0"});
  expect_error(error("tiny_big_bird", 40), {"ranks", "windows", "big_bird"});
  expect_error(error("", 31), {"ranks", "at least 32 tokens for 4 ranks", "found 31"});
  EXPECT_EQ(error("", 32), "");
}

TEST(DocumentRanks, NoticesOtherDocumentsAndLostRanks) {
  const TemporaryFolder folder({{"config.json", kLongformer}});
  const auto forward = [&](const Text& text, const LoadOptions& options) {
    const DocumentInput input = text.input();
    Model::random(folder.name() + "/config.json", options).forward({&input, 1});
  };
  for (const std::string& error : in_ranks(3, [&](int rank, const LoadOptions&options) {
         forward(Text(100, rank == 2 ? 1 : 0), options);
       })) {
    expect_error(error, {"ranks", "document", "rank 2"});
  }
  const auto errors = in_ranks(3, [&](int rank, const LoadOptions& options) {
    if (rank == 1) throw Error("out of memory");
    forward(Text(100), options);
  });
  EXPECT_EQ(errors[1], "out of memory");
  for (const int rank : {0, 2}) {
    expect_error(errors[static_cast<std::size_t>(rank)],
                 {fmt::format("rank {} of 3", rank), "an answer", "connection closed"});
  }
}

TEST(DocumentRanks, NeedNeighbours) {
  struct OnlySums : Ranks {
    int rank() const override { return 0; }
    int count() const override { return 2; }
    void sum(std::span<double> values) const override {
      std::fill(values.begin(), values.end(), values[0]);
    }
    void sum(std::span<float>) const override {}
  };
  const TemporaryFolder folder({{"config.json", kLongformer}});
  const OnlySums ranks;
  const Model model =
      Model::random(folder.name() + "/config.json", {.threads = 1, .ranks = &ranks});
  const Text text(100);
  const DocumentInput input = text.input();
  expect_error(error_of([&] { model.forward({&input, 1}); }), {"ranks", "max() and exchange()"});
}

}  // namespace longformer::document_ranks_test
