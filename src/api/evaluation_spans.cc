// Evaluating the labels of words and the answers to questions.
#include "api/evaluation_run.h"
#include "core/error.h"
#include "longformer/question_answering.h"
#include "longformer/tagging.h"
#include "tasks/answer_metrics.h"
#include "tasks/question_data.h"
#include "tasks/tagging_data.h"

namespace longformer {
namespace {

using Strings = std::vector<std::string>;

Strings names_of(std::span<const std::int32_t> labels, const Strings& names) {
  Strings result;
  for (const std::int32_t label : labels) {
    // A word that was not read has no entity.
    result.push_back(label < 0 ? "O" : names[static_cast<std::size_t>(label)]);
  }
  return result;
}

Strings texts_of(std::span<const tasks::GoldAnswer> answers) {
  Strings texts;
  for (const tasks::GoldAnswer& answer : answers) texts.push_back(answer.text);
  return texts;
}

/// The answer that the model gives; empty for none.
std::string answer_of(const AnswerOutcome& outcome, bool may_have_none, float threshold) {
  if (outcome.answers.empty()) return "";
  const Answer& best = outcome.answers[0];
  const bool none = may_have_none && outcome.no_answer_logit - best.logit > threshold;
  return none ? "" : best.text;
}

void add_metrics(const tasks::AnswerCounter& answers, EvaluationRun& run) {
  require(answers.questions() > 0, "{}: expected a question that can be asked, found none: {}",
          run.path, run.result.first_skipped);
  run.add("f1", answers.all().f1);
  run.add("exact_match", answers.all().exact_match);
  if (answers.unanswerable() == 0) return;
  if (answers.questions() > answers.unanswerable()) {
    run.add("has_answer_f1", answers.answerable_scores().f1);
    run.add("has_answer_exact_match", answers.answerable_scores().exact_match);
  }
  run.add("no_answer_exact_match", answers.unanswerable_scores().exact_match);
}

}  // namespace

void evaluate_tagging(EvaluationRun& run) {
  const Strings& names = run.model.info().labels;
  const auto data = tasks::read_tagging(run.path, run.options.data, tasks::LabelSet(names));
  run.start(data.report);
  const Tagger tagger(run.model, run.tokenizer);
  tasks::EntityCounter entities;
  const auto done = [&, next = std::size_t{0}](const WordLabels& found) mutable {
    const tasks::TaggingExample& example = data.examples[next++];
    if (!run.usable(example.origin, found.error, found.remedies)) return;
    for (const std::int32_t label : found.labels) run.result.unread_words += label < 0 ? 1 : 0;
    const Strings predicted = names_of(found.labels, names);
    const Strings expected = names_of(example.labels, names);
    entities.add(predicted, expected);
    tasks::Json json = EvaluationRun::prediction(example.origin);
    json["labels"] = expected;
    json["predictions"] = predicted;
    run.predict(json);
    run.count({found.tokens, found.truncated, found.segments});
  };
  const auto source = [&, next = std::size_t{0}]() mutable -> std::optional<Strings> {
    if (next == data.examples.size()) return std::nullopt;
    return data.examples[next++].words;
  };
  tagger.label_words(source, done, run.applied_to(TagOptions()));
  require(run.result.examples > 0, "{}: expected an example that can be scored, found none: {}",
          run.path, run.result.first_skipped);
  const tasks::ClassificationMetrics metrics = entities.metrics();
  run.add("f1", metrics.micro.f1);
  run.add("precision", metrics.micro.precision);
  run.add("recall", metrics.micro.recall);
  run.add("f1_macro", metrics.macro.f1);
  run.add("accuracy", metrics.accuracy);
  run.add_labels(metrics);
}

void evaluate_questions(EvaluationRun& run) {
  const auto data = tasks::read_questions(run.path, run.options.data);
  run.start(data.report);
  const QuestionAnswerer answerer(run.model, run.tokenizer);
  auto options = run.applied_to(AnswerOptions());
  options.max_answer_tokens = run.options.max_answer_tokens;
  tasks::AnswerCounter answers;
  const auto done = [&, next = std::size_t{0}](const AnswerOutcome& outcome) mutable {
    const tasks::QuestionExample& example = data.examples[next++];
    if (!run.usable(example.origin, outcome.error, outcome.remedies)) return;
    const std::string found =
        answer_of(outcome, data.unanswerable > 0, run.options.no_answer_threshold);
    const Strings right = texts_of(example.answers);
    answers.add(found, right);
    const tasks::AnswerScores scores = tasks::score_answer(found, right);
    tasks::Json json = EvaluationRun::prediction(example.origin);
    json["answers"] = right;
    json["prediction"] = found;
    json["exact_match"] = scores.exact_match;
    json["f1"] = scores.f1;
    json["logit"] = outcome.answers.empty() ? tasks::Json() : tasks::Json(outcome.answers[0].logit);
    json["no_answer_logit"] = outcome.no_answer_logit;
    run.predict(json);
    run.count({outcome.tokens, outcome.truncated, outcome.segments});
  };
  const auto source = [&, next = std::size_t{0}]() mutable -> std::optional<Question> {
    if (next == data.examples.size()) return std::nullopt;
    const tasks::QuestionExample& example = data.examples[next++];
    return Question{example.question, *example.context};
  };
  answerer.answer(source, done, options);
  add_metrics(answers, run);
}

}  // namespace longformer
