// Evaluating classes of documents, numbers, and choices.
#include <algorithm>

#include "api/evaluation_run.h"
#include "api/task_folder.h"
#include "core/error.h"
#include "longformer/choice.h"
#include "tasks/choice_data.h"
#include "tasks/classification_data.h"
#include "tasks/scores.h"

namespace longformer {
namespace {

using tasks::ProblemType;

tasks::ClassificationTarget target_of(const ModelInfo& info) {
  tasks::ClassificationTarget target = {std::nullopt, tasks::LabelSet(info.labels)};
  if (!info.problem_type.empty()) target.problem = tasks::problem_type(info.problem_type);
  return target;
}

/// What the model said of all examples, and what is right. C classes.
struct Outcomes {
  std::vector<std::int32_t> predicted, expected;
  /// [examples, C]
  std::vector<float> scores, values;
};

std::vector<float> scores_of(std::span<const float> logits, ProblemType problem) {
  if (problem == ProblemType::single_label) return tasks::softmax(logits);
  if (problem == ProblemType::multi_label) return tasks::sigmoid(logits);
  return {logits.begin(), logits.end()};
}

/// {"label", "prediction", "scores"}: names, lists of names, or numbers.
void describe(const tasks::ClassificationExample& example, std::span<const float> scores,
              const EvaluationRun& run, ProblemType problem) {
  if (!run.options.predictions) return;
  const auto& labels = run.model.info().labels;
  tasks::Json json = EvaluationRun::prediction(example.origin);
  if (problem == ProblemType::single_label) {
    const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
    json["label"] = labels[static_cast<std::size_t>(example.label)];
    json["prediction"] = labels[static_cast<std::size_t>(best)];
  } else if (problem == ProblemType::multi_label) {
    json["label"] = tasks::Json::array();
    json["prediction"] = tasks::Json::array();
    for (std::size_t c = 0; c < labels.size(); ++c) {
      if (example.values[c] > 0.5f) json["label"].push_back(labels[c]);
      if (scores[c] > run.options.threshold) json["prediction"].push_back(labels[c]);
    }
  } else {
    json["label"] = example.values;
    json["prediction"] = std::vector<float>(scores.begin(), scores.end());
    run.predict(json);
    return;
  }
  json["scores"] = tasks::Json::object();
  for (std::size_t c = 0; c < labels.size(); ++c) json["scores"][labels[c]] = scores[c];
  run.predict(json);
}

void add_single_label(const Outcomes& outcomes, EvaluationRun& run) {
  const auto& labels = run.model.info().labels;
  const auto metrics = tasks::class_metrics(outcomes.predicted, outcomes.expected, labels);
  run.add("accuracy", metrics.accuracy);
  if (labels.size() == 2) {
    const auto second =
        std::find_if(metrics.labels.begin(), metrics.labels.end(),
                     [&labels](const tasks::LabelScores& one) { return one.label == labels[1]; });
    run.add("f1", second == metrics.labels.end() ? 0 : second->f1);
  }
  run.add("f1_macro", metrics.macro.f1);
  run.add("f1_weighted", metrics.weighted.f1);
  run.add("precision_macro", metrics.macro.precision);
  run.add("recall_macro", metrics.macro.recall);
  run.add_labels(metrics);
}

void add_multi_label(const Outcomes& outcomes, EvaluationRun& run) {
  const auto metrics = tasks::multi_label_metrics(outcomes.scores, outcomes.values,
                                                  run.model.info().labels, run.options.threshold);
  run.add("f1_micro", metrics.micro.f1);
  run.add("f1_macro", metrics.macro.f1);
  run.add("f1_weighted", metrics.weighted.f1);
  run.add("precision_micro", metrics.micro.precision);
  run.add("recall_micro", metrics.micro.recall);
  run.add("accuracy", metrics.accuracy);
  run.add_labels(metrics);
}

void add_regression(const Outcomes& outcomes, EvaluationRun& run) {
  const auto metrics = tasks::regression_metrics(outcomes.scores, outcomes.values);
  run.add("pearson", metrics.pearson);
  run.add("spearman", metrics.spearman);
  run.add("mse", metrics.mean_squared_error);
  run.add("mae", metrics.mean_absolute_error);
}

void require_any(const EvaluationRun& run) {
  require(run.result.examples > 0, "{}: expected an example that can be scored, found none: {}",
          run.path, run.result.first_skipped);
}

}  // namespace

void evaluate_classification(EvaluationRun& run) {
  const auto data =
      tasks::read_classification(run.path, run.options.data, target_of(run.model.info()));
  run.start(data.report);
  const Classifier classifier(run.model, run.tokenizer);
  auto options = run.applied_to(ClassifyOptions());
  options.merge = run.options.merge;
  Outcomes outcomes;
  const auto done = [&, next = std::size_t{0}](const ClassifyOutcome& outcome) mutable {
    const tasks::ClassificationExample& example = data.examples[next++];
    const Classification& found = outcome.classification;
    if (!run.usable(example.origin, outcome.error, outcome.remedies)) return;
    const auto scores = scores_of(found.logits, data.problem);
    outcomes.predicted.push_back(
        static_cast<std::int32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin()));
    outcomes.expected.push_back(example.label);
    outcomes.scores.insert(outcomes.scores.end(), scores.begin(), scores.end());
    outcomes.values.insert(outcomes.values.end(), example.values.begin(), example.values.end());
    describe(example, scores, run, data.problem);
    run.count({found.tokens, found.truncated, found.segments});
  };
  const auto source = [&, next = std::size_t{0}]() mutable -> std::optional<ClassifyInput> {
    if (next == data.examples.size()) return std::nullopt;
    const tasks::ClassificationExample& example = data.examples[next++];
    return ClassifyInput{.text = example.text, .pair = example.pair};
  };
  classifier.classify(source, done, options);
  require_any(run);
  if (data.problem == ProblemType::single_label) add_single_label(outcomes, run);
  if (data.problem == ProblemType::multi_label) add_multi_label(outcomes, run);
  if (data.problem == ProblemType::regression) add_regression(outcomes, run);
}

void evaluate_choices(EvaluationRun& run) {
  check_too_long_choices(run.model, run.options.too_long);
  const auto data = tasks::read_choices(run.path, run.options.data);
  run.start(data.report);
  const Chooser chooser(run.model, run.tokenizer);
  const auto options = run.applied_to(ChooseOptions());
  std::int64_t right = 0;
  const auto done = [&, next = std::size_t{0}](const ChoiceOutcome& outcome) mutable {
    const tasks::ChoiceExample& example = data.examples[next++];
    const ChoiceAnswer& answer = outcome.answer;
    if (!run.usable(example.origin, outcome.error, outcome.remedies)) return;
    right += answer.best == example.label ? 1 : 0;
    tasks::Json json = EvaluationRun::prediction(example.origin);
    json["label"] = example.label;
    json["prediction"] = answer.best;
    json["probabilities"] = answer.probabilities;
    run.predict(json);
    run.count({answer.tokens, answer.truncated, answer.segments});
  };
  const auto source = [&, next = std::size_t{0}]() mutable -> std::optional<ChoiceQuestion> {
    if (next == data.examples.size()) return std::nullopt;
    return data.examples[next++].question;
  };
  chooser.choose(source, done, options);
  require_any(run);
  run.add("accuracy", static_cast<double>(right) / static_cast<double>(run.result.examples));
}

}  // namespace longformer
