// Evaluating while training: rows are read once and go through the encoder once, for loss and
// metrics.
#include "api/validation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "api/evaluation.h"
#include "core/random.h"
#include "engine/frame/table.h"
#include "engine/run/task_folder.h"
#include "engine/training/loss_pass.h"
#include "fixtures.h"
#include "longformer/checkpoint.h"
#include "longformer/options.h"
#include "temporary_folder.h"

namespace longformer::validation_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string text(std::uint64_t seed, std::uint64_t words = 6) {
  const std::vector<std::string> known = {"at",  "on", "was", "he", "for", "his",
                                          "the", "of", "to",  "in", "it",  "is"};
  std::string text;
  for (std::uint64_t i = 0; i < words; ++i) {
    text += (i == 0 ? "" : " ") + known[random_bits(seed, i) % known.size()];
  }
  return text;
}

constexpr std::uint64_t kExamples = 7;

/// JSON lines of `make(number)`.
template <typename Make>
std::string lines(const Make& make) {
  std::string all;
  for (std::uint64_t i = 0; i < kExamples; ++i) all += Json(make(i)).dump() + "\n";
  return all;
}

template <typename Make>
std::string list(const Make& make) {
  Json all = Json::array();
  for (std::uint64_t i = 0; i < kExamples; ++i) all.push_back(make(i));
  return all.dump();
}

/// Tokens that an encoder ran while `work` was done.
template <typename Work>
std::int64_t tokens_of(const TrainedModel& model, const Work& work) {
  const std::int64_t before = model.implementation().encoder.tokens_run();
  work();
  return model.implementation().encoder.tokens_run() - before;
}

models::AddedTokens added_tokens(const std::string& folder, const engine::Task& task) {
  models::AddedTokens added;
  if (task.marks().empty()) return added;
  const Tokenizer tokenizer = Tokenizer::load(folder, task.marks());
  for (const std::string& mark : task.marks()) added.emplace_back(mark, *tokenizer.id(mark));
  return added;
}

/// State of finetune() when it begins to train.
class TrainedTask {
 public:
  TrainedTask(const std::string& folder, const std::string& task, const std::string& path,
              const FinetuneOptions& given = {})
      : options_(with_data(given, task, path)),
        folder_(folder),
        config_(models::read_config(folder + "/config.json")),
        named_(engine::task_of_verb(task)),
        data_(named_.read(path, options_.data, {})),
        model_({.folder = folder,
                .task = &named_.of_head(),
                .labels = data_->labels(),
                .problem_type = data_->problem_type(),
                .settings = data_->settings(config_),
                .added_tokens = added_tokens(folder, named_.of_head())},
               options_.training),
        tokenizer_(matching_tokenizer(model_.model(), folder, named_.of_head().marks())),
        rows_(data_->collate({.config = model_.config(),
                              .tokenizer = tokenizer_,
                              .reading = engine::with_globals(
                                  model_.config(), named_.of_head(), path,
                                  {.max_tokens = named_.of_head().longest_document(model_.config()),
                                   .too_long = options_.too_long,
                                   .stride = options_.stride}),
                              .data = options_.data,
                              .keeps_readings = true,
                              .folder = folder_})) {}

  const TrainedModel& model() const { return model_; }
  const engine::TrainingSet& rows() const { return *rows_; }

  Validation validation() const { return validation(tokenizer_); }
  Validation validation(const Tokenizer& tokenizer) const {
    return Validation({.options = options_,
                       .folder = folder_,
                       .data = *data_,
                       .rows = *rows_,
                       .model = model_,
                       .tokenizer = tokenizer,
                       .max_text_tokens = model_.config().max_tokens()});
  }

  /// One pass for loss and metrics: `alone` is what an evaluation of the model costs that does not
  /// know of the loss. Returns what run() costs.
  std::int64_t expect_figures(std::int64_t& alone) const {
    training::Metrics found;
    Validation measured = validation();
    const std::int64_t cost = tokens_of(model_, [&] { found = measured.run(); });
    LossPass pass(model_, *rows_, options_.training.per_device_train_batch_size);
    EXPECT_EQ(found.front().second, pass.mean_loss());
    EXPECT_TRUE(std::isfinite(found.front().second));

    Evaluation expected;
    alone = tokens_of(model_, [&] { expected = evaluated(); });
    EXPECT_EQ(found.size(), expected.metrics.size() + 1);
    for (std::size_t i = 0; i < std::min(found.size() - 1, expected.metrics.size()); ++i) {
      EXPECT_EQ(found[i + 1].first, expected.metrics[i].first);
      const double difference = std::abs(found[i + 1].second - expected.metrics[i].second);
      EXPECT_TRUE(difference <= 1e-5) << found[i + 1].first;
    }
    return cost;
  }

  std::int64_t tokens() const {
    const auto lengths = rows_->lengths();
    return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  }

 private:
  static FinetuneOptions with_data(FinetuneOptions options, const std::string& task,
                                   const std::string& path) {
    options.data = engine::with_inputs(options.data);
    options.task = task;
    options.train_path = options.validation_path = path;
    options.training.per_device_train_batch_size = 3;
    return options;
  }

  Evaluation evaluated() const {
    EvaluateOptions options;
    options.task = options_.task;
    options.data = options_.data;
    options.too_long = options_.too_long;
    options.stride = options_.stride;
    std::optional<Embedder> embedder;
    if (named_.makes_vectors()) {
      embedder.emplace(Embedder::of(model_.model(), folder_));
      options.embedder = &*embedder;
    }
    std::optional<TextGenerator> generator;
    if (model_.config().decoder) {
      generator.emplace(TextGenerator::of(model_.model(), folder_));
      options.generator = &*generator;
      options.generation.options = options_.generation;
    }
    return evaluate_set(model_.model(), tokenizer_, options_.validation_path, *data_, options);
  }

  FinetuneOptions options_;
  std::string folder_;
  models::EncoderConfig config_;
  const engine::Task& named_;
  std::unique_ptr<engine::DataSet> data_;
  TrainedModel model_;
  Tokenizer tokenizer_;
  std::unique_ptr<engine::TrainingSet> rows_;
};

class ValidationTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    place_ = std::make_unique<TemporaryFolder>();
    convert((fixtures_folder() / "tiny_bert").string(), longformer(),
            {.max_positions = 64, .windows = {8}});
  }
  static void TearDownTestSuite() { place_.reset(); }

  static std::string longformer() { return (place_->path() / "longformer").string(); }

  /// All rows go through the encoder once; before, they went twice.
  void expect_one_pass(const std::string& task, const std::string& file,
                       const std::string& contents, const FinetuneOptions& options = {}) {
    const TrainedTask trained(longformer(), task, folder_.add(file, contents), options);
    std::int64_t alone = 0;
    const std::int64_t cost = trained.expect_figures(alone);
    EXPECT_EQ(cost, trained.tokens());
    EXPECT_EQ(alone, trained.tokens());
  }

  TemporaryFolder folder_;

 private:
  static inline std::unique_ptr<TemporaryFolder> place_;
};

std::string labelled() {
  return lines([](std::uint64_t i) {
    return Json{{"text", text(i, 4 + 15 * i)}, {"label", i % 2 == 0 ? "a" : "b"}};
  });
}

TEST_F(ValidationTest, Classification) {
  const FinetuneOptions split = {.too_long = TooLong::split, .stride = 16};
  expect_one_pass("classify", "single.jsonl", labelled(), split);
  expect_one_pass("classify", "cut.jsonl", labelled(), {.too_long = TooLong::truncate});
  expect_one_pass(
      "classify", "multi.jsonl", lines([](std::uint64_t i) {
        return Json{{"text", text(i)}, {"labels", i % 3 == 0 ? Json{"a"} : Json{"a", "b"}}};
      }));
  FinetuneOptions values;
  values.data.label_field = "score";
  expect_one_pass("classify", "regression.jsonl", lines([](std::uint64_t i) {
                    return Json{{"text", text(i)}, {"score", 0.25 + static_cast<double>(i)}};
                  }),
                  values);
}

std::string words_with_labels() {
  std::string all;
  for (std::uint64_t i = 0; i < kExamples; ++i) {
    for (std::uint64_t w = 0; w < 9 * i + 1; ++w) {
      all += text(10 * i + w, 1) + (w % 4 == 0 ? " B-X\n" : " O\n");
    }
    all += "\n";
  }
  return all;
}

TEST_F(ValidationTest, Words) {
  expect_one_pass("ner", "words.conll", words_with_labels(),
                  {.too_long = TooLong::split, .stride = 8});
}

std::string questions() {
  return lines([](std::uint64_t i) {
    const std::string context = text(i, 8 + 16 * i);
    const std::string first = context.substr(0, context.find(' '));
    return Json{{"id", std::to_string(i)},
                {"context", context},
                {"question", text(100 + i, 3)},
                {"answers", {{"text", {first}}, {"answer_start", {0}}}}};
  });
}

TEST_F(ValidationTest, Answers) {
  expect_one_pass("qa", "questions.jsonl", questions(), {.too_long = TooLong::split, .stride = 30});
}

/// Documents without an answer teach nothing, but are evaluated: they go through once, too.
TEST_F(ValidationTest, AnswersOfTriviaQA) {
  Json data = Json::array();
  for (std::uint64_t i = 0; i < kExamples; ++i) {
    const std::string name = std::to_string(i);
    folder_.add("evidence/wikipedia/" + name,
                text(i, 10 + 12 * i) + (i % 3 == 0 ? "" : " had been"));
    data.push_back({{"QuestionId", name},
                    {"Question", text(50 + i, 3)},
                    {"Answer", {{"NormalizedAliases", {"had been"}}}},
                    {"EntityPages", {{{"Filename", name}}}}});
  }
  const Json whole = {{"Data", data}, {"Domain", "Wikipedia"}};
  const std::string path = folder_.add("qa/trivia.json", whole.dump());
  const TrainedTask trained(longformer(), "trivia", path,
                            {.too_long = TooLong::split, .stride = 16});
  EXPECT_LT(trained.rows().size(), static_cast<Index>(kExamples));
  std::int64_t alone = 0;
  const std::int64_t cost = trained.expect_figures(alone);
  EXPECT_EQ(cost, alone);
  EXPECT_GT(cost, trained.tokens());
}

TEST_F(ValidationTest, Choices) {
  expect_one_pass("choose", "choices.jsonl", lines([](std::uint64_t i) {
                    return Json{{"context", text(i, 9)},
                                {"question", text(50 + i, 3)},
                                {"choices", {text(100 + i, 2), text(200 + i, 4)}},
                                {"label", i % 2}};
                  }));
  expect_one_pass("candidates", "candidates.json", list([](std::uint64_t i) {
                    return Json{{"id", std::to_string(i)},
                                {"query", text(i, 3)},
                                {"answer", "on"},
                                {"candidates", {"at", "on"}},
                                {"supports", {text(50 + i, 10), text(70 + i, 10 + 10 * i)}}};
                  }),
                  {.too_long = TooLong::split, .stride = 0});
}

TEST_F(ValidationTest, Coreference) {
  FinetuneOptions options;
  options.data.coreference.head_size = 16;
  options.data.coreference.top_lambda = 0.6;
  options.data.coreference.max_segment_tokens = 24;
  expect_one_pass(
      "coreference", "stories.jsonl", lines([](std::uint64_t i) {
        return Json{{"doc_key", std::to_string(i)},
                    {"sentences", {{"he", "was", "at", "the"}, {"she", "had", "it", "in", "his"}}},
                    {"clusters", {{{0, 0}, {8, 8}}, {{2, 3}, {6, 6}}}}};
      }),
      options);
}

TEST_F(ValidationTest, QuestionsOverParagraphs) {
  const auto paragraph = [](const char* title, std::vector<std::string> sentences) {
    return Json::array({title, sentences});
  };
  expect_one_pass("multihop", "hops.json", list([&](std::uint64_t i) {
                    return Json{
                        {"_id", std::to_string(i)},
                        {"question", text(50 + i, 3)},
                        {"answer", i % 2 == 0 ? "his" : "yes"},
                        {"supporting_facts", Json::array({Json::array({"he", 1})})},
                        {"context", Json::array({paragraph("he", {text(i, 4), "it is his"}),
                                                 paragraph("they", {text(80 + i, 4 + 9 * i)})})}};
                  }),
                  {.too_long = TooLong::truncate});
}

TEST_F(ValidationTest, Vectors) {
  expect_one_pass(
      "embedding", "pairs.jsonl", lines([](std::uint64_t i) {
        return Json{{"anchor", text(i)}, {"positive", text(50 + i)}, {"negative", text(100 + i)}};
      }));
  expect_one_pass("embedding", "scored.jsonl", lines([](std::uint64_t i) {
                    return Json{{"sentence1", text(i)},
                                {"sentence2", text(50 + i)},
                                {"score", static_cast<double>(i % 4) / 4}};
                  }));
  // Documents of several segments too.
  expect_one_pass("embedding", "passages.jsonl", lines([](std::uint64_t i) {
                    std::string whole;
                    Json passages = Json::array();
                    for (std::uint64_t p = 0; p < 2 + 2 * i; ++p) {
                      const std::string one = text(10 * i + p, 8);
                      passages.push_back({{"begin", whole.size()},
                                          {"end", whole.size() + one.size()},
                                          {"query", text(500 + 10 * i + p, 3)}});
                      whole += one + " ";
                    }
                    return Json{{"text", whole}, {"passages", passages}};
                  }));
}

/// The loss reads the right text, a written text follows its own tokens: two decodings, each with
/// its pass of the encoder.
TEST_F(ValidationTest, WrittenTextsNeedASecondPass) {
  const fs::path led = folder_.path() / "led";
  fs::copy(fixtures_folder() / "tiny_led", led);
  for (const char* file : {"vocab.json", "merges.txt"}) {
    fs::copy(fixtures_folder() / "tiny_roberta" / file, led / file);
  }
  const std::string path = folder_.add("texts.jsonl", lines([](std::uint64_t i) {
                                         return Json{{"text", text(i)}, {"summary", text(i, 2)}};
                                       }));
  FinetuneOptions options;
  const TrainedTask without(led.string(), "seq2seq", path, options);
  Validation loss = without.validation();
  training::Metrics found;
  EXPECT_EQ(tokens_of(without.model(), [&] { found = loss.run(); }), without.tokens());
  EXPECT_EQ(found.size(), 1u);

  options.predict_with_generate = true;
  options.generation.max_length = 8;
  const TrainedTask with(led.string(), "seq2seq", path, options);
  std::int64_t alone = 0;
  const std::int64_t cost = with.expect_figures(alone);
  EXPECT_EQ(alone, with.tokens());
  EXPECT_EQ(cost, with.tokens() + alone);
}

/// A second reading with another tokenizer would have other rows, if any.
TEST_F(ValidationTest, NothingIsReadAgain) {
  const Tokenizer other = Tokenizer::load((fixtures_folder() / "tiny_roberta").string());
  const auto expect_same = [&](const std::string& task, const std::string& file,
                               const std::string& contents) {
    const TrainedTask trained(longformer(), task, folder_.add(file, contents),
                              {.too_long = TooLong::split, .stride = 30});
    for (const engine::ReadRecord& one : trained.rows().records()) {
      EXPECT_TRUE(one.reading.has_value());
    }
    Validation expected = trained.validation(), found = trained.validation(other);
    EXPECT_EQ(found.run(), expected.run()) << task;
  };
  expect_same("classify", "labelled.jsonl", labelled());
  expect_same("ner", "words.conll", words_with_labels());
  expect_same("qa", "questions.jsonl", questions());
}

}  // namespace
}  // namespace longformer::validation_test
