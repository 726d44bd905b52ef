// The head for coreference, its losses and what is read, against a second one in PyTorch
// (tests/fixtures/make_coreference.py).
//
// Reruns: tsan
#include "tasks/coreference/coreference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/random.h"
#include "engine/frame/collation.h"
#include "engine/run/document_states.h"
#include "engine/run/model_implementation.h"
#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "span_testing.h"
#include "tasks/coreference/coreference_head.h"
#include "temporary_folder.h"

namespace longformer::tasks::coreference_test {
namespace {

std::string fixture(const std::string& name) {
  return (fixtures_folder() / "coreference" / name).string();
}

CoreferenceExample document_of(const Json& json) {
  CoreferenceExample document;
  document.words.words = json["words"].get<std::vector<std::string>>();
  document.words.sentences = json["sentences"].get<std::vector<Index>>();
  document.words.speakers = json.value("speakers", std::vector<std::string>());
  for (const Json& cluster : json["gold"]) {
    WordCluster& mentions = document.clusters.emplace_back();
    for (const Json& mention : cluster) mentions.push_back({mention[0], mention[1]});
  }
  put_in_order(document.clusters);
  return document;
}

Json json_of(const std::vector<WordSpan>& spans) {
  Json all = Json::array();
  for (const WordSpan& span : spans) all.push_back({span.first, span.last});
  return all;
}

Json json_of(const std::vector<WordCluster>& clusters) {
  Json all = Json::array();
  for (const WordCluster& cluster : clusters)
    all.push_back(json_of(std::vector<WordSpan>(cluster)));
  return all;
}

/// A case of the fixture: a model with its settings, and its documents.
class Case {
 public:
  explicit Case(const Json& json, const std::string& dtype = "fp32")
      : json(json),
        config(settings_of(json)),
        model(
            config,
            models::Weights::trained(models::Weights::open(fixture(""), config.family->names), {}),
            {.dtype = dtype, .threads = 2}),
        tokenizer(Tokenizer::load(fixture(""))),
        reader(tokenizer, {.max_tokens = model.info.max_tokens}, {}, coreference_config(config)) {}

  const CoreferenceHead& head() const {
    return dynamic_cast<const CoreferenceHead&>(model.task_head());
  }

  /// All documents of the case.
  TrainingBatch batch() const {
    std::vector<Example> examples;
    for (const Json& one : json["documents"]) {
      const CoreferenceExample document = document_of(one);
      CoreferenceReading read = reader.read(document.words);
      Example& example = examples.emplace_back(one_example(read.reading));
      example.targets[0].coreference = read.words;
      example.targets[0].coreference->clusters = document.clusters;
    }
    return training_batch(config, examples);
  }

  ops::LossSum loss(const ops::Context& context, const HeadLossOptions& options = {}) const {
    const TrainingBatch made = batch();
    return model.loss(context, made.tokens,
                      {.documents = made.targets, .questions = made.questions}, options);
  }

  CoreferenceResult resolve(const CoreferenceReading& read, Index batch_tokens) const {
    const Tensor states =
        states_of(model, read.reading.rows, {.batch_tokens = batch_tokens, .progress = {}});
    return head().resolve(model.context(), states, read.words);
  }

  const Json& json;
  models::EncoderConfig config;
  Model::Implementation model;
  Tokenizer tokenizer;
  CoreferenceReader reader;

 private:
  static models::EncoderConfig settings_of(const Json& json) {
    auto config = models::read_config(fixture("config.json"));
    config.head_settings.at(kCoreferenceKey).object.update(json["settings"]);
    return config;
  }
};

constexpr std::size_t kCases = 15;

const Json& cases() {
  static const Json all = formats::read_json(fixture("expected.json"))["cases"];
  return all;
}

class Coreference : public testing::TestWithParam<std::size_t> {
 protected:
  const Json& json() const { return cases()[GetParam()]; }

 private:
  testing::ScopedTrace trace_ = {__FILE__, __LINE__, json()["name"].get<std::string>()};
};

TEST_P(Coreference, RowsAndPlacesOfWordsAreThoseOfTheDescription) {
  const Case one(json());
  for (const Json& expected : json()["documents"]) {
    const CoreferenceReading read = one.reader.read(document_of(expected).words);
    Json rows = Json::array();
    for (const TokenRow& row : read.reading.rows) rows.push_back(row.ids);
    EXPECT_EQ(rows, expected["rows"]);
    EXPECT_EQ(Json(read.words.first_tokens), expected["first_tokens"]);
    EXPECT_EQ(Json(read.words.last_tokens), expected["last_tokens"]);
    EXPECT_EQ(read.words.tokens, expected["tokens"]);
    EXPECT_EQ(read.unread_words, 0);
  }
}

TEST_P(Coreference, FindsTheSpansAndClustersOfPyTorch) {
  const Case one(json());
  for (const Json& expected : json()["documents"]) {
    const CoreferenceReading read = one.reader.read(document_of(expected).words);
    for (const Index batch_tokens : {1, 8192}) {
      const CoreferenceResult found = one.resolve(read, batch_tokens);
      EXPECT_EQ(json_of(found.kept), expected["kept"]);
      EXPECT_EQ(json_of(found.clusters), expected["clusters"]);
    }
  }
}

TEST_P(Coreference, LossesAreThoseOfPyTorch) {
  const Case one(json());
  const ops::LossSum loss = one.loss(one.model.context());
  const double expected = json()["loss"];
  EXPECT_EQ(loss.weight, static_cast<double>(json()["documents"].size()));
  EXPECT_TRUE(std::abs(loss.sum / loss.weight - expected) <= 1e-5 * std::max(1.0, expected))
      << loss.sum / loss.weight << " " << expected;
}

TEST_P(Coreference, Bf16StaysNear) {
  const Case one(json(), "bf16");
  Tape tape;
  ops::Context context = one.model.context();
  context.tape = &tape;
  const ops::LossSum loss = one.loss(context);
  tape.backward();
  const double expected = json()["loss"];
  EXPECT_TRUE(std::abs(loss.sum / loss.weight - expected) <= 0.05 * std::max(1.0, expected))
      << loss.sum / loss.weight << " " << expected;
}

INSTANTIATE_TEST_SUITE_P(Fixture, Coreference, testing::Range(std::size_t{0}, kCases));

TEST(CoreferenceFixture, HasNoOtherCases) { EXPECT_EQ(cases().size(), kCases); }

TEST(CoreferenceGradients, AreThoseOfPyTorch) {
  const auto expected = formats::SafetensorsFile::open(fixture("expected.safetensors"));
  std::size_t compared = 0;
  for (const Json& json : cases()) {
    const Case one(json);
    Tape tape;
    ops::Context context = one.model.context();
    context.tape = &tape;
    one.loss(context, {.scale = 3});
    tape.backward();
    for (const auto& [name, value] : one.model.weights.parameters()) {
      const auto found = expected.tensors().find(json["name"].get<std::string>() + "." +
                                                 one.model.weights.stored_name(name));
      const Tensor sum = value.gradient()->take();
      if (found == expected.tensors().end()) continue;
      const std::vector<float> truth = found->second.to_floats();
      const std::vector<float> sent =
          sum.empty() ? std::vector<float>(truth.size(), 0.0f) : sum.to_floats();
      ASSERT_EQ(sent.size(), truth.size()) << found->first;
      for (std::size_t i = 0; i < truth.size(); ++i) {
        const double right = 3 * static_cast<double>(truth[i]);
        ASSERT_TRUE(std::abs(sent[i] - right) <= 1e-4 * std::max(1.0, std::abs(right)))
            << found->first << " " << i << ": " << sent[i] << ", expected " << right;
      }
      ++compared;
    }
  }
  EXPECT_EQ(compared, expected.tensors().size());
}

TEST(CoreferenceDropout, DocumentsOfABatchDoNotShareMasks) {
  // Two documents that are the same one lose other numbers.
  Json json = cases()[0];
  json["settings"] = {{"dropout_prob", 0.5}};
  const auto loss_with = [&](std::uint64_t seed, const Json& documents) {
    json["documents"] = documents;
    const Case one(json);
    ops::Context context = one.model.context();
    context.dropout_seed = seed;
    const TrainingBatch made = one.batch();
    // The encoder drops nothing, so that the head alone differs.
    const Tensor hidden = one.model.encoder.forward(one.model.context(), made.tokens);
    const Tensor pooled;
    return one.head()
        .loss(context, {.hidden = hidden, .pooled = pooled, .batch = made.tokens},
              {.documents = made.targets, .questions = made.questions}, {})
        .sum;
  };
  const Json document = cases()[0]["documents"][0];
  const double alone = loss_with(5, Json::array({document}));
  EXPECT_EQ(alone, loss_with(5, Json::array({document})));
  EXPECT_NE(alone, loss_with(6, Json::array({document})));
  const double both = loss_with(5, Json::array({document, document}));
  EXPECT_TRUE(std::abs(both - 2 * alone) > 1e-3) << both << " " << alone;
}

TEST(CoreferenceHead, RefusesWhatItCannotMean) {
  const Case one(cases()[0]);
  const CoreferenceExample document = document_of(cases()[0]["documents"][0]);
  CoreferenceReading read = one.reader.read(document.words);
  const Tensor states =
      states_of(one.model, read.reading.rows, {.batch_tokens = 100, .progress = {}});
  CoreferenceTarget words = read.words;
  words.last_tokens.back() = 1000;
  expect_error(error_of([&] { one.head().resolve(one.model.context(), states, words); }),
               {"coreference", "words at tokens"});
  words = read.words;
  words.mention_ends[0] = 0;
  expect_error(error_of([&] { one.head().resolve(one.model.context(), states, words); }),
               {"coreference", "words at tokens"});
  TrainingBatch batch = one.batch();
  batch.targets[0].coreference.reset();
  expect_error(error_of([&] {
                 one.model.loss(one.model.context(), batch.tokens,
                                {.documents = batch.targets, .questions = batch.questions}, {});
               }),
               {"coreference", "none"});
  const std::vector<float> none(at(states.size()), NAN);
  expect_error(error_of([&] {
                 one.head().resolve(one.model.context(), Tensor::from(none, states.shape()),
                                    read.words);
               }),
               {"finite"});
  models::EncoderConfig config = one.config;
  config.head_settings.clear();
  expect_error(error_of([&] { coreference_config(config); }), {"coref_head", "none"});
}

// ---- long documents ----

using testing_spans::Doubles;

/// The layers of a head with its drawn weights, as plain loops in double.
class PlainLayers {
 public:
  explicit PlainLayers(const models::Weights& weights) {
    for (const auto& [name, value] : weights.parameters()) {
      const std::vector<float> floats = value.to_floats();
      weights_[name] = {floats.begin(), floats.end()};
    }
  }

  /// x [rows, columns of the layer].
  Doubles linear(const std::string& name, const Doubles& x) const {
    const Doubles &weight = weights_.at(name + ".weight"), &bias = weights_.at(name + ".bias");
    const auto out = std::ssize(bias), in = std::ssize(weight) / out;
    Doubles y;
    for (Index row = 0; row < std::ssize(x) / in; ++row) {
      for (Index o = 0; o < out; ++o) {
        y.push_back(bias[at(o)] + testing_spans::dot(x, row, weight, o, in));
      }
    }
    return y;
  }

  /// FC(x) with GELU and a norm, whose gains are 1.
  Doubles mlp(const std::string& name, const Doubles& x, double epsilon) const {
    Doubles y = linear(name + ".dense", x);
    const std::size_t width = weights_.at(name + ".layer_norm.bias").size();
    for (double& value : y) value *= 0.5 * std::erfc(-value / std::sqrt(2.0));
    for (auto row = y.begin(); row != y.end(); row += static_cast<std::ptrdiff_t>(width)) {
      const std::span<double> values(row, width);
      double mean = 0, variance = 0;
      for (const double value : values) mean += value / static_cast<double>(width);
      for (double& value : values) value -= mean;
      for (const double value : values) variance += value * value / static_cast<double>(width);
      for (double& value : values) value /= std::sqrt(variance + epsilon);
    }
    return y;
  }

 private:
  std::map<std::string, Doubles> weights_;
};

/// Expected result of a head of drawn weights for a document, and its distance from another result.
struct PlainResult {
  std::vector<WordSpan> kept;
  std::vector<WordCluster> clusters;
  /// The least difference between a score that decided and one that nearly did.
  double margin = std::numeric_limits<double>::infinity();
};

/// A head without an encoder, over states that are drawn.
struct DrawnHead {
  models::EncoderConfig config = models::read_config(fixture("config.json"));
  models::Weights weights = models::Weights::trained(models::Weights::drawn(11), {});
  std::optional<CoreferenceHead> head;

  DrawnHead() {
    // Scores of mentions are around −3, as they begin, and links move their sums around 0.
    config.head_settings.at(kCoreferenceKey)
        .object.update({{"top_lambda", 0.2},
                        {"mention_scale", 0.1},
                        {"antecedent_scale", 0.18},
                        {"singletons", false}});
    head.emplace(config, models::LayerSource{.weights = weights,
                                             .initial = {.deviation = 0.2},
                                             .layer_norm_eps = config.layer_norm_eps});
  }

  PlainResult plain(const Tensor& hidden, const CoreferenceTarget& words) const {
    const PlainLayers layers(weights);
    const CoreferenceConfig settings = coreference_config(config);
    const auto mlp = [&](const std::string& name, const std::vector<std::int64_t>& tokens) {
      const auto* states = hidden.data<float>();
      const Index size = hidden.columns();
      Doubles x;
      for (const std::int64_t t : tokens) {
        x.insert(x.end(), states + t * size, states + (t + 1) * size);
      }
      return layers.mlp(name, x, config.layer_norm_eps);
    };
    PlainResult result;
    std::vector<WordSpan> spans;
    testing_spans::Spans table;
    table.width = settings.head_size;
    table.scale = settings.mention_scale;
    for (Index w = 0; w < std::ssize(words.mention_ends); ++w) {
      table.counts.push_back(words.mention_ends[at(w)] - w);
      for (Index last = w; last < words.mention_ends[at(w)]; ++last) spans.push_back({w, last});
    }
    const Doubles a = mlp("start_mention_mlp", words.first_tokens);
    table.starts = layers.linear("mention_start_classifier", a);
    table.query = layers.linear("mention_s2e_classifier", a);
    table.key = mlp("end_mention_mlp", words.last_tokens);
    table.ends = layers.linear("mention_end_classifier", table.key);
    const Doubles scores = table.scores();

    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t one, std::size_t other) { return scores[one] > scores[other]; });
    const auto k =
        static_cast<std::size_t>(settings.top_lambda * static_cast<double>(words.tokens));
    result.margin = scores[order.at(k - 1)] - scores[order.at(k)];
    order.resize(k);
    std::sort(order.begin(), order.end());
    testing_spans::Links links;
    links.width = settings.head_size;
    links.scale = settings.antecedent_scale;
    std::vector<std::int64_t> first, last;
    for (const std::size_t number : order) {
      result.kept.push_back(spans[number]);
      links.mentions.push_back(scores[number]);
      first.push_back(words.first_tokens[at(spans[number].first)]);
      last.push_back(words.last_tokens[at(spans[number].last)]);
    }
    const auto sum = [&](const char* one, const Doubles& x, const char* other, const Doubles& y) {
      Doubles both = layers.linear(one, x);
      const Doubles added = layers.linear(other, y);
      for (std::size_t i = 0; i < both.size(); ++i) both[i] += added[i];
      return both;
    };
    links.start_key = mlp("start_coref_mlp", first);
    links.end_key = mlp("end_coref_mlp", last);
    links.start_query = sum("antecedent_s2s_classifier", links.start_key,
                            "antecedent_e2s_classifier", links.end_key);
    links.end_query = sum("antecedent_e2e_classifier", links.end_key, "antecedent_s2e_classifier",
                          links.start_key);
    link(links, result);
    return result;
  }

  static void link(const testing_spans::Links& links, PlainResult& result) {
    std::vector<std::size_t> cluster_of;
    for (Index u = 0; u < links.size(); ++u) {
      // Nothing has 0.
      double highest = 0, second = -std::numeric_limits<double>::infinity();
      Index best = -1;
      for (Index v = 0; v < u; ++v) {
        const double score = links.score(u, v);
        second = std::max(second, std::min(score, highest));
        if (score > highest) best = v;
        highest = std::max(highest, score);
      }
      result.margin = std::min(result.margin, highest - second);
      cluster_of.push_back(best < 0 ? result.clusters.size() : cluster_of[at(best)]);
      if (best < 0) result.clusters.emplace_back();
      result.clusters[cluster_of.back()].push_back(result.kept[at(u)]);
    }
    std::erase_if(result.clusters, [](const WordCluster& cluster) { return cluster.size() == 1; });
  }
};

TEST(CoreferenceHead, ScoresOfLongDocumentsAreThoseOfPlainLoops) {
  // More words and spans than are computed together, of one and two tokens in turn. Long spans
  // begin before every multiple of 512 words, so that many cross the ends of what is scored
  // together.
  constexpr Index kWords = 5000;
  CoreferenceTarget words;
  for (Index w = 0; w < kWords; ++w) {
    words.first_tokens.push_back(w + w / 2);
    words.last_tokens.push_back(w + (w + 1) / 2);
    words.mention_ends.push_back(std::min(kWords, w + (w % 512 >= 482 ? 30 : 1 + w % 3)));
  }
  words.tokens = words.last_tokens.back() + 1;
  const DrawnHead drawn;
  const Tensor hidden = random_normal_tensor({words.tokens, drawn.config.hidden_size}, 1, 7);
  MemoryPool memory;
  const CoreferenceResult found =
      drawn.head->resolve({.memory = memory, .threads = 2}, hidden, words);
  const PlainResult expected = drawn.plain(hidden, words);
  EXPECT_TRUE(expected.margin >= 1e-4) << "other seeds: a near tie of " << expected.margin;
  EXPECT_EQ(found.kept, expected.kept);
  EXPECT_EQ(found.clusters, expected.clusters);
  EXPECT_GE(expected.clusters.size(), 20u);
  for (const Index border : {2048, 4096}) {
    EXPECT_GE(std::count_if(
                  found.kept.begin(), found.kept.end(),
                  [&](const WordSpan& span) { return span.first < border && span.last >= border; }),
              10)
        << border;
  }
}

TEST(CoreferenceReader, RefusesMarksInWordsAndNames) {
  const Case one(cases()[0]);
  CoreferenceWords words = {.words = {"he", "[speaker]"}, .sentences = {0}};
  expect_error(error_of([&] { one.reader.read(words); }), {"[speaker]", "without"});
  words = {.words = {"he", "was"}, .sentences = {0}, .speakers = {"a", "b[/speaker]"}};
  expect_error(error_of([&] { one.reader.read(words); }), {"[/speaker]", "names"});
  expect_error(error_of([&] {
                 CoreferenceReader(one.tokenizer, {.max_tokens = 24}, {.segments = "none"},
                                   coreference_config(one.config));
               }),
               {"segments", "overlapping", "none"});
}

TEST(CoreferenceReader, TruncationLeavesTheWordsThatAreWhole) {
  const Case one(cases()[0]);
  for (const char* segments : {"overlapping", "independent", "continued"}) {
    const CoreferenceReader reader(one.tokenizer, {.max_tokens = 8, .too_long = TooLong::truncate},
                                   {.segments = segments}, coreference_config(one.config));
    // walling is wa-ll-ing or so: its pieces do not fit.
    const CoreferenceReading read = reader.read(
        {.words = {"he", "was", "at", "the", "walling", "of", "you"}, .sentences = {0, 3}});
    ASSERT_EQ(read.reading.rows.size(), 1u);
    EXPECT_EQ(read.reading.rows[0].ids.size(), 8u);
    EXPECT_EQ(read.words.first_tokens, (std::vector<std::int64_t>{1, 2, 3, 4}));
    EXPECT_EQ(read.words.mention_ends, (std::vector<std::int64_t>{3, 3, 3, 4}));
    EXPECT_EQ(read.words.tokens, 6);
    EXPECT_EQ(read.unread_words, 3);
  }
}

TEST(CoreferenceReader, PartsHaveTheClustersThatAreWholeInThem) {
  CoreferenceExample whole;
  whole.words = {.words = {"a", "b", "c", "d", "e"},
                 .sentences = {0, 2, 4},
                 .speakers = {"x", "x", "y", "y", "z"}};
  whole.clusters = {{{0, 0}, {2, 3}}, {{1, 2}, {3, 4}}, {{3, 3}, {4, 4}}};
  const CoreferenceExample part = part_of(whole, {2, 4});
  EXPECT_EQ(part.words.words, (std::vector<std::string>{"c", "d"}));
  EXPECT_EQ(part.words.sentences, (std::vector<Index>{0}));
  EXPECT_EQ(part.words.speakers, (std::vector<std::string>{"y", "y"}));
  EXPECT_EQ(part.clusters, (std::vector<WordCluster>{{{0, 1}}, {{1, 1}}}));
}

// ---- training ----

/// The words of a document that are its numbers, in sentences of so many.
Json numbered(const std::vector<Index>& sentences) {
  const std::vector<std::string> names = {"he", "was", "at", "the", "of", "and", "in", "is"};
  Json document = {{"doc_key", "n"}, {"sentences", Json::array()}, {"clusters", Json::array()}};
  std::size_t word = 0;
  for (const Index count : sentences) {
    Json sentence = Json::array();
    for (Index i = 0; i < count; ++i) sentence.push_back(names[(word++ * 7) % names.size()]);
    document["sentences"].push_back(sentence);
  }
  return document;
}

TEST(CoreferenceTraining, LongDocumentsAreAnotherRunOfSentencesInEveryEpoch) {
  // Sentences of 3, 4, 5 … words, each with its first and last word in the one cluster; a short
  // document stays as it is.
  const std::vector<Index> sentences = {3, 4, 5, 6, 4, 3, 5, 7};
  Json document = numbered(sentences);
  std::vector<Index> starts = {0};
  document["clusters"].push_back(Json::array());
  for (const Index count : sentences) {
    const Index begin = starts.back();
    document["clusters"][0].push_back({begin, begin});
    document["clusters"][0].push_back({begin + count - 1, begin + count - 1});
    starts.push_back(begin + count);
  }
  const Case one(cases()[0]);
  DataOptions data;
  data.coreference.max_training_tokens = 12;
  TemporaryFolder files;
  const std::string path =
      files.add("d.jsonl", document.dump() + "\n" + numbered({2, 3}).dump() + "\n");
  const auto set = coreference().read(path, data, {});
  const auto rows = set->collate({.config = one.config,
                                  .tokenizer = one.tokenizer,
                                  .reading = {.max_tokens = 24},
                                  .data = data});
  ASSERT_EQ(rows->size(), 2);
  const auto at_epoch = [&](Index index, const Epoch& epoch) {
    return rows->batch({&index, 1}, epoch);
  };
  const auto words_in = [](const TrainingBatch& batch) {
    return std::ssize(batch.targets[0].coreference->first_tokens);
  };
  EXPECT_EQ(words_in(at_epoch(0, kUnchanged)), starts.back());
  std::set<Index> sizes;
  std::set<std::vector<std::int32_t>> seen;
  for (Index number = 0; number < 40; ++number) {
    const TrainingBatch batch = at_epoch(0, {.seed = 3, .number = number});
    const CoreferenceTarget& target = *batch.targets[0].coreference;
    EXPECT_LE(target.tokens, 12);
    EXPECT_GE(target.tokens, 7);
    // Whole sentences: each begins and ends with a mention.
    ASSERT_EQ(target.clusters.size(), 1u);
    const WordCluster& mentions = target.clusters[0];
    ASSERT_EQ(mentions.size() % 2, 0u);
    EXPECT_EQ(mentions.front(), (WordSpan{0, 0}));
    EXPECT_EQ(mentions.back().last, words_in(batch) - 1);
    sizes.insert(words_in(batch));
    seen.insert(batch.tokens.ids);
    const TrainingBatch again = at_epoch(0, {.seed = 3, .number = number});
    EXPECT_EQ(again.tokens.ids, batch.tokens.ids);
    EXPECT_EQ(words_in(at_epoch(1, {.seed = 3, .number = number})), 5);
  }
  EXPECT_GE(sizes.size(), 3u);
  EXPECT_GE(seen.size(), 4u);
  EXPECT_EQ(rows->report().documents, 2);
}

}  // namespace
}  // namespace longformer::tasks::coreference_test
