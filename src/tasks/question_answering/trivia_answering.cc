#include "tasks/question_answering/trivia_answering.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "engine/frame/evaluation_run.h"
#include "engine/frame/predictions.h"
#include "engine/frame/split.h"
#include "tasks/engine_names.h"
#include "tasks/question_answering/answer_matching.h"
#include "tasks/question_answering/question_answering.h"
#include "tasks/question_answering/trivia_metrics.h"

namespace longformer::tasks {
namespace {

/// The score of a document without a span.
constexpr float kNoSpan = -1e6f;

/// A document is read alone, though its question has others.
constexpr Counter kUnreachedDocuments = {
    .name = kUnreachedAnswers.name,
    .meaning = kUnreachedAnswers.meaning,
    .evaluation = {.one = "{n} of {examples|document} has no answer in what is read",
                   .many = "{n} of {examples|document} have no answer in what is read"},
    .training = {.one = "{n} document, which teaches nothing, has no answer in what is read",
                 .many = "{n} documents, which teach nothing, have no answer in what is read"},
    .is_of_model = true};

ReadingOptions with_short_questions(ReadingOptions options, const TriviaOptions& trivia) {
  require(trivia.max_question_tokens >= 1,
          OptionName("data.trivia.max_question_tokens", "max question tokens"),
          "expected at least 1, found {}", trivia.max_question_tokens);
  options.max_question_tokens = trivia.max_question_tokens;
  return options;
}

/// Right spans of each row of a document; empty if no row has a whole one.
std::vector<DocumentTarget> right_spans(const Reading& reading, const TriviaExample& example,
                                        const TriviaOptions& options) {
  const AnswerMatcher matcher(example.question->answers, options.matching);
  std::vector<DocumentTarget> targets(reading.ranges.size());
  bool reached = false;
  for (const CharacterSpan& span : matcher.find(reading.text)) {
    for (std::size_t r = 0; r < targets.size(); ++r) {
      const auto tokens = answer_tokens(reading.encoding.offsets, reading.ranges[r], span);
      if (!tokens) continue;
      const Index shift = reading.prefix - reading.ranges[r].begin;
      targets[r].starts.push_back(tokens->begin + shift);
      targets[r].ends.push_back(tokens->end - 1 + shift);
      reached = true;
      if (options.loss == AnswerLoss::first) return targets;
    }
  }
  if (!reached) return {};
  for (DocumentTarget& target : targets) {
    sort_and_unite(target.starts);
    sort_and_unite(target.ends);
  }
  return targets;
}

/// Sums over the keys that a prediction is wanted for; what is missing is wrong.
class TriviaCounter {
 public:
  TriviaCounter(const TriviaData& data, const AnswersById& predictions) {
    for (const auto& [key, question] : data.gold) {
      const auto found = predictions.find(key);
      if (found == predictions.end()) continue;
      const AnswerScores scores = score_trivia_answer(found->second, question->answers);
      ++common_;
      sums_.exact_match += scores.exact_match;
      sums_.f1 += scores.f1;
    }
    keys_ = std::ssize(data.gold);
  }

  std::int64_t common() const { return common_; }
  std::int64_t keys() const { return keys_; }
  double f1() const { return percent(sums_.f1); }
  double exact_match() const { return percent(sums_.exact_match); }
  double percent(double sum) const {
    return keys_ == 0 ? 0 : sum * 100 / static_cast<double>(keys_);
  }

 private:
  AnswerScores sums_;
  std::int64_t common_ = 0, keys_ = 0;
};

/// The best answer among the documents that share a key, and whether any of their answers is right.
struct KeyAnswer {
  std::string text;
  float logit = kNoSpan;
  bool any_right = false;
};

class TriviaSet final : public DataSet {
 public:
  explicit TriviaSet(TriviaData data) : data_(std::move(data)) {}

  bool has_one_class() const override { return false; }

  DataReport report() const override { return data_.report; }
  std::vector<std::string> metric_names() const override {
    if (!data_.has_answers) return {"common", "denominator"};
    std::vector<std::string> names = {"f1", "exact_match"};
    if (data_.by_question) names.emplace_back("oracle_exact_match");
    names.insert(names.end(), {"common", "denominator"});
    return names;
  }

  std::vector<SplitRecord> split_records() const override {
    return engine::split_records(data_.examples, [](const auto& one) {
      std::vector<std::uint64_t> keys = {split_key("id", one.question->id)};
      if (!one.file.empty()) keys.push_back(split_key("file", one.file));
      return keys;
    });
  }
  std::unique_ptr<DataSet> split_off(std::span<const Index> examples) override {
    auto part = engine::split_off(*this, &TriviaSet::data_, examples);
    for (TriviaSet* one : {this, part.get()}) {
      std::map<std::string, std::shared_ptr<const TriviaQuestion>> gold;
      for (const TriviaExample& two : one->data_.examples) gold[two.key] = two.question;
      one->data_.gold = std::move(gold);
    }
    return part;
  }

  std::unique_ptr<TrainingSet> collate(const CollationSetup& given) const override {
    require(data_.has_answers, "{}: expected questions with answers to learn, found none",
            data_.path);
    CollationSetup setup = given;
    setup.reading = with_short_questions(setup.reading, given.data.trivia);
    auto rows = collated(data_, setup, [&](Collator& rows, const TriviaExample& example) {
      return tasks::collate(rows, example, given.data);
    });
    require(rows->size() > 0,
            "{}: expected a document with an answer in what is read to learn from, found none "
            "among {}",
            data_.path, rows->report().counts[kUnreachedDocuments.name]);
    return rows;
  }

  void evaluate(EvaluationRun& run) const override {
    const TriviaOptions& options = run.options.data.trivia;
    const RowReader reader(run.model.tokenizer(),
                           with_short_questions(run.options.reading, options));
    require(run.options.max_answer_tokens >= 1,
            "answer: expected a longest answer of at least 1 token, found {}",
            run.options.max_answer_tokens);
    std::map<std::string, KeyAnswer> best;
    const auto read = [&](const TriviaExample& example) {
      return reader.read(example.question->text, text_of(example, run.options.data));
    };
    const auto score = [&](const TriviaExample& example, const Document& document,
                           Json& prediction) {
      const Reading& reading = document.reading;
      const std::vector<std::string>& right = example.question->answers;
      const auto found = best_answer(document, run.options.max_answer_tokens);
      const std::string answer = found ? tasks::text_of(reading, found->tokens) : std::string();
      const float logit = found ? found->logit : kNoSpan;
      const AnswerScores scores = score_trivia_answer(answer, right);
      const auto [place, is_first] = best.try_emplace(example.key);
      KeyAnswer& of_key = place->second;
      of_key.any_right = of_key.any_right || scores.exact_match == 1;
      if (is_first || logit > of_key.logit) {
        of_key.text = answer;
        of_key.logit = logit;
      }
      run.result.counts[kEmpty] += reading.text.empty() ? 1 : 0;
      if (!right.empty() && right_spans(reading, example, options).empty()) {
        ++run.result.counts[kUnreachedDocuments];
      }
      prediction["key"] = example.key;
      prediction["answers"] = right;
      prediction["prediction"] = answer;
      prediction["exact_match"] = scores.exact_match;
      prediction["f1"] = scores.f1;
      prediction["logit"] = logit;
    };
    run.each(data_.examples, read, score);
    report(best, run);
  }

  bool has_published_form() const override { return true; }

  void score(const std::string& predictions, Evaluation& result) const override {
    const TriviaCounter counter(data_, read_answers(predictions));
    result.examples = counter.keys();
    result.counts[kMissing] = counter.keys() - counter.common();
    add_metrics(counter, std::nullopt, result);
  }

 private:
  void report(const std::map<std::string, KeyAnswer>& best, EvaluationRun& run) const {
    AnswersById published;
    double any_right = 0;
    for (const auto& [key, answer] : best) {
      published[key] = answer.text;
      any_right += answer.any_right ? 1 : 0;
    }
    const TriviaCounter counter(data_, published);
    run.result.counts[kMissing] = counter.keys() - counter.common();
    add_metrics(counter, counter.percent(any_right), run.result);
    run.publish(answers_text(published));
  }

  /// `any_right`: how often some document's answer is right, in percent, where it is known.
  void add_metrics(const TriviaCounter& counter, std::optional<double> any_right,
                   Evaluation& result) const {
    const auto add = [&](const char* name, double value) {
      result.metrics.emplace_back(name, value);
    };
    if (data_.has_answers) {
      add("f1", counter.f1());
      add("exact_match", counter.exact_match());
      if (any_right && data_.by_question) add("oracle_exact_match", *any_right);
    }
    add("common", static_cast<double>(counter.common()));
    add("denominator", static_cast<double>(counter.keys()));
  }

  TriviaData data_;
};

class TriviaAnswering final : public Task {
 public:
  const TaskNames& names() const override {
    static constexpr TaskNames names = {
        .head = "question-answering", .verb = "trivia", .class_ending = "ForQuestionAnswering"};
    return names;
  }

  OptionFields options(DataOptions& data, OptionUse use) const override {
    return trivia_fields(data.trivia, use);
  }

  const Task& of_head() const override { return question_answering(); }
  std::vector<const Counter*> counters() const override {
    return official_counters({&kUnreachedDocuments});
  }

  std::optional<HeadParts> parts(const models::EncoderConfig& config) const override {
    return of_head().parts(config);
  }
  std::unique_ptr<Head> make_head(const models::EncoderConfig& config,
                                  const models::Weights& weights, DType dtype) const override {
    return of_head().make_head(config, weights, dtype);
  }

  std::unique_ptr<DataSet> read(const std::string& path, const DataOptions& options,
                                const KnownLabels&) const override {
    return std::make_unique<TriviaSet>(read_trivia(path, options));
  }

  bool recognises(std::string_view beginning) const override {
    return beginning.find("\"QuestionId\"") != std::string_view::npos &&
           beginning.find("\"Data\"") != std::string_view::npos;
  }
};

}  // namespace

const Task& trivia_answering() {
  static const TriviaAnswering task;
  return task;
}

std::vector<Example> collate(Collator& rows, const TriviaExample& example,
                             const DataOptions& options) {
  Reading reading = rows.reader().read(example.question->text, text_of(example, options));
  rows.report().data.empty += reading.text.empty() ? 1 : 0;
  std::vector<DocumentTarget> targets = right_spans(reading, example, options.trivia);
  if (targets.empty()) {
    ++rows.report().counts[kUnreachedDocuments];
    rows.drop(reading);
    rows.keep(std::move(reading));
    return {};
  }
  Example whole = rows.example_of(reading);
  whole.targets = std::move(targets);
  rows.keep(std::move(reading));
  return {std::move(whole)};
}

}  // namespace longformer::tasks
