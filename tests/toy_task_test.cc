// A task that the library does not have, in one file and one row of the table: everything that
// stands on the table trains, runs, evaluates and converts it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "engine/frame/collation.h"
#include "engine/frame/evaluation_run.h"
#include "engine/frame/table.h"
#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "formats/option_json.h"
#include "longformer/analysis.h"
#include "longformer/checkpoint.h"
#include "longformer/evaluation.h"
#include "longformer/finetuning.h"
#include "longformer/options.h"
#include "models/attention/attention.h"
#include "ops/embedding.h"
#include "tasks/choice/candidate_scoring.h"
#include "tasks/choice/multiple_choice.h"
#include "tasks/classification/classification.h"
#include "tasks/masked_lm/masked_lm.h"
#include "tasks/question_answering/question_answering.h"
#include "tasks/tagging/tagging.h"
#include "temporary_folder.h"
#if __has_include("evaluation_report.h")
#include "evaluation_report.h"
#include "option_flags.h"
#endif

namespace longformer {
namespace tasks {
namespace {

constexpr CountSentence kAreNegative = {.one = "{n} score is below 0",
                                        .many = "{n} scores are below 0"};
constexpr Counter kNegativeScores = {.name = "negative_scores",
                                     .meaning = "scores below 0",
                                     .evaluation = kAreNegative,
                                     .training = kAreNegative,
                                     .row = "negative scores",
                                     .scope = CountScope::parts};

/// Name of the option with which all scores are multiplied.
constexpr const char* kScale = "score_scale";

double& scale_of(DataOptions& options) {
  return std::get<double>(options.further.try_emplace(kScale, 1.0).first->second);
}

/// The score of each word of a text, such as how long it is read.
struct ScoredWords {
  Origin origin;
  std::vector<std::string> words;
  std::vector<float> scores;
};

struct ScoredData {
  std::string path;
  std::vector<ScoredWords> examples;
  DataReport report;
};

/// The first token of a word speaks for it.
class ScoreHead final : public ClassifierHead {
 public:
  using ClassifierHead::ClassifierHead;

 private:
  ops::LossSum loss_of(const ops::Context& context, const Tensor& logits,
                       const models::Batch& batch, const Targets& targets,
                       const HeadLossOptions& options) const override {
    std::vector<Index> rows;
    std::vector<float> scores;
    for (std::size_t d = 0; d < targets.documents.size(); ++d) {
      const DocumentTarget& target = targets.documents[d];
      for (const Index token : target.starts) rows.push_back(batch.starts[d] + token);
      scores.insert(scores.end(), target.values.begin(), target.values.end());
    }
    return ops::squared_error(context, ops::select_rows(context, logits, rows), scores,
                              mean_of(static_cast<double>(scores.size()), options));
  }
};

std::vector<Index> first_tokens(const Reading& reading) {
  std::vector<Index> tokens;
  for (Index i = 0; i < reading.read(); ++i) {
    if (i == 0 || reading.words[at(i)] != reading.words[at(i - 1)]) {
      tokens.push_back(reading.prefix + i);
    }
  }
  return tokens;
}

std::int64_t negative_scores(const ScoredWords& example) {
  return std::ranges::count_if(example.scores, [](float score) { return score < 0; });
}

class ScoreSet final : public DataSet {
 public:
  explicit ScoreSet(ScoredData data) : data_(std::move(data)) {}

  bool has_one_class() const override { return false; }
  DataReport report() const override { return data_.report; }
  std::vector<std::string> metric_names() const override { return {"mse"}; }

  std::unique_ptr<TrainingSet> collate(const CollationSetup& setup) const override {
    return collated(data_, setup, [](Collator& rows, const ScoredWords& example) {
      Reading reading = rows.reader().read(example.words);
      auto examples = rows.examples_of(reading);
      examples[0].targets[0].starts = first_tokens(reading);
      examples[0].targets[0].values = example.scores;
      rows.report().counts[kNegativeScores] += negative_scores(example);
      return examples;
    });
  }

  void evaluate(EvaluationRun& run) const override {
    const RowReader reader(run.model.tokenizer(), run.options.reading);
    double sum = 0, count = 0;
    run.each(
        data_.examples, [&](const ScoredWords& example) { return reader.read(example.words); },
        [&](const ScoredWords& example, const Document& document, Json& prediction) {
          run.result.counts[kNegativeScores] += negative_scores(example);
          prediction["scores"] = Json::array();
          const std::vector<Index> tokens = first_tokens(document.reading);
          for (std::size_t w = 0; w < tokens.size(); ++w) {
            const float found = document.outputs[0][at(tokens[w])];
            prediction["scores"].push_back(found);
            sum += std::pow(found - example.scores[w], 2.0);
            ++count;
          }
        });
    run.add("mse", sum / count);
  }

 private:
  ScoredData data_;
};

class WordScores final : public Task {
 public:
  const TaskNames& names() const override {
    static constexpr TaskNames names = {
        .head = "word-scores", .verb = "score", .class_ending = "ForWordScores"};
    return names;
  }

  OptionFields options(DataOptions& data, OptionUse) const override {
    return {{.name = kScale,
             .value = &scale_of(data),
             .help = "score: factor of all scores ({})",
             .group = "Scores of words",
             .type = "X",
             .most = 1000}};
  }

  std::optional<HeadParts> parts(const models::EncoderConfig&) const override {
    return HeadParts{
        .classifier = "scorer", .outputs = 1, .per_token = true, .is_unmistakable = true};
  }

  std::unique_ptr<Head> make_head(const models::EncoderConfig& config,
                                  const models::Weights& weights, DType dtype) const override {
    return std::make_unique<ScoreHead>(*parts(config), models::layer_source(config, weights, dtype),
                                       config.hidden_size, names().head);
  }

  std::vector<Index> globals_of_ids(const models::EncoderConfig&, std::span<const std::int32_t> ids,
                                    const std::string&) const override {
    return {0, static_cast<Index>(ids.size()) - 1};
  }

  std::vector<const Counter*> counters() const override {
    return reading_counters({&kNegativeScores});
  }

  std::unique_ptr<DataSet> read(const std::string& path, const DataOptions& options,
                                const KnownLabels&) const override {
    ScoredData data;
    data.path = path;
    DataOptions copy = options;
    const double scale = scale_of(copy);
    read_objects(path, options, data.report, [&](const Json& object, const Record& record) {
      ScoredWords one;
      one.origin = {record.number, id_of(object)};
      for (const Json& word : list_member(object, "words")) one.words.push_back(word);
      for (const Json& score : list_member(object, "scores")) {
        one.scores.push_back(static_cast<float>(scale) * score.get<float>());
      }
      require(one.words.size() == one.scores.size(), "expected {} scores, found {}",
              one.words.size(), one.scores.size());
      data.examples.push_back(std::move(one));
    });
    return std::make_unique<ScoreSet>(std::move(data));
  }
};

const Task& word_scores() {
  static const WordScores task;
  return task;
}

}  // namespace
}  // namespace tasks

/// The table of the library with one more row, in its place.
std::span<const engine::Task* const> engine::all_tasks() {
  static const std::array<const Task*, 7> all = {
      &tasks::classification(),  &tasks::tagging(),           &tasks::question_answering(),
      &tasks::multiple_choice(), &tasks::candidate_scoring(), &tasks::masked_lm(),
      &tasks::word_scores(),
  };
  return all;
}

namespace {

namespace fs = std::filesystem;

std::string fixture(const std::string& name) { return (fixtures_folder() / name).string(); }

class ToyTask : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream file(data_);
    for (int i = 0; i < 8; ++i) {
      file << R"({"words": ["the", "lamp", "keeper"], "scores": [0.5, )" << 1.5 + i % 2
           << R"(, -1]})"
           << "\n";
    }
  }

  FinetuneOptions options() const {
    FinetuneOptions options;
    options.task = "score";
    options.train_path = options.validation_path = data_;
    options.training.output_dir = trained_;
    options.training.max_steps = 60;
    options.training.learning_rate = 5e-3;
    options.training.eval_strategy = "steps";
    options.training.eval_steps = 30;
    options.training.save_strategy = "no";
    return options;
  }

  TemporaryFolder folder_;
  std::string data_ = (folder_.path() / "scores.jsonl").string();
  std::string trained_ = (folder_.path() / "trained").string();
};

TEST_F(ToyTask, TrainsRunsEvaluatesAndConverts) {
  FinetuneData seen;
  FinetuneCallbacks callbacks;
  callbacks.data = [&](const FinetuneData& data) { seen = data; };
  finetune(fixture("tiny_bert_tagger"), options(), callbacks);
  EXPECT_EQ(seen.task, "score");
  EXPECT_EQ(seen.examples, 8);
  EXPECT_EQ(seen.drawn, (std::vector<std::string>{"scorer.bias", "scorer.weight"}));
  EXPECT_EQ(inspect(trained_).head, "word-scores");
  EXPECT_EQ(inspect(trained_).architecture, "BertForWordScores");

  const Model model = Model::load(trained_);
  const Tokenizer tokenizer = Tokenizer::load(trained_);
  EXPECT_EQ(model.info().head, "word-scores");
  const Evaluation trained = evaluate(model, tokenizer, data_);
  ASSERT_EQ(trained.metrics.size(), 1u);
  EXPECT_EQ(trained.metrics[0].first, "mse");
  // Words alone cannot say which of two values the lamp has: 1/12 is what is left.
  EXPECT_TRUE(trained.metrics[0].second < 0.2) << trained.metrics[0].second;

  const std::string longer = (folder_.path() / "longer").string();
  convert(trained_, longer, {.max_positions = 64, .windows = {16}});
  const Model converted = Model::load(longer);
  EXPECT_EQ(converted.info().head, "word-scores");
  EXPECT_EQ(inspect(longer).architecture, "LongformerForWordScores");
  const std::vector<std::int32_t> ids = {2, 7, 8, 3};
  EXPECT_EQ(converted.default_global_attention_mask(ids), (std::vector<std::int32_t>{1, 0, 0, 1}));
  const Evaluation again = evaluate(converted, tokenizer, data_);
  EXPECT_TRUE(std::abs(again.metrics[0].second - trained.metrics[0].second) <= 1e-4);
}

TEST_F(ToyTask, HasACounter) {
  FinetuneData seen;
  FinetuneCallbacks callbacks;
  callbacks.data = [&](const FinetuneData& data) { seen = data; };
  FinetuneOptions one = options();
  one.training.max_steps = 1;
  finetune(fixture("tiny_bert_tagger"), one, callbacks);
  EXPECT_EQ(seen.counts["negative_scores"], 8);
  ASSERT_EQ(notes_of(seen).size(), 1u);
  EXPECT_EQ(notes_of(seen)[0].text, "8 scores are below 0");

  const Evaluation found = evaluate(Model::load(trained_), Tokenizer::load(trained_), data_);
  EXPECT_EQ(found.counts["negative_scores"], 8);
  EXPECT_TRUE(std::ranges::any_of(evaluation_counters(), [](const Counter* counter) {
    return counter->name == "negative_scores";
  }));
#if __has_include("evaluation_report.h")
  EXPECT_NE(to_json(found).find(R"("negative_scores":8)"), std::string::npos);
  EXPECT_NE(cli::table_of(found).find("negative scores                   8\n"), std::string::npos);
  testing::internal::CaptureStderr();
  cli::Messages messages;
  cli::tell(notes_of(found), messages);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("8 scores are below 0"), std::string::npos);
#endif
}

TEST_F(ToyTask, HasAnOption) {
  EvaluateOptions evaluation;
  FinetuneOptions training = options();
  for (const OptionFields& all : {fields(evaluation), fields(training)}) {
    const auto found = std::ranges::find(all, std::string("score_scale"), &OptionField::name);
    ASSERT_NE(found, all.end());
    EXPECT_EQ(found->group, "Scores of words");
    EXPECT_EQ(formats::json_of({*found}).dump(), R"({"score_scale":1.0})");
  }
  const OptionFields all = fields(evaluation);
  formats::read_options(all, formats::parse_json(R"({"score_scale": 2.5})", "request"), "request");
  EXPECT_TRUE(std::get<double>(evaluation.data.further.at("score_scale")) == 2.5);

  training.training.max_steps = 1;
  finetune(fixture("tiny_bert_tagger"), training);
  const Model model = Model::load(trained_);
  const Tokenizer tokenizer = Tokenizer::load(trained_);
  const double plain = evaluate(model, tokenizer, data_).metrics[0].second;
  EXPECT_TRUE(evaluate(model, tokenizer, data_, evaluation).metrics[0].second > 2 * plain);
#if __has_include("option_flags.h")
  CLI::App program("a program", "toy");
  cli::add_fields(program, fields(training));
  EXPECT_NE(program.help().find("Scores of words:"), std::string::npos);
  EXPECT_NE(program.help().find("--score-scale X"), std::string::npos);
  EXPECT_NE(program.help().find("score: factor of all scores (1)"), std::string::npos);
  std::vector<std::string> arguments = {"0.5", "--score-scale"};
  program.parse(arguments);
  EXPECT_TRUE(std::get<double>(training.data.further.at("score_scale")) == 0.5);
  arguments = {"-1", "--score-scale"};
  EXPECT_THROW(program.parse(arguments), CLI::ValidationError);
#endif
}

TEST_F(ToyTask, HasGradients) {
  FinetuneOptions one = options();
  one.training.max_steps = 1;
  one.training.eval_strategy = "no";
  finetune(fixture("tiny_bert_tagger"), one);
  const GradientModel model = GradientModel::load(trained_);
  const std::vector<std::int32_t> ids = {2, 7, 8, 3};
  DocumentInput document = {};
  document.ids = ids;
  DocumentTarget target = {};
  target.starts = {1, 2};
  target.values = {1, 2};
  const LossGradients found = model.loss_and_gradients({&document, 1}, {&target, 1});
  EXPECT_TRUE(found.loss > 0);
  for (const NamedGradient& gradient : found.gradients) {
    if (gradient.name != "scorer.weight") continue;
    const float sum = std::accumulate(gradient.values.begin(), gradient.values.end(), 0.0f);
    EXPECT_TRUE(std::abs(sum) > 0);
    return;
  }
  ADD_FAILURE() << "no gradient of the head";
}

TEST_F(ToyTask, IsNamedWhereTasksAreListed) {
  EXPECT_EQ(tasks_of_head("word-scores"), std::vector<std::string>{"score"});
  EXPECT_EQ(tasks_of_head("masked-lm"), std::vector<std::string>{"mlm"});
  EXPECT_TRUE(tasks_of_head("").empty());
  FinetuneOptions wrong = options();
  wrong.task = "scores";
  expect_error(error_of([&] { finetune(fixture("tiny_bert_tagger"), wrong); }),
               {"expected classify, ner, qa, choose, candidates or score, found \"scores\""});
}

}  // namespace
}  // namespace longformer
