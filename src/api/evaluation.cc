#include "longformer/evaluation.h"

#include <chrono>

#include "api/evaluation_run.h"
#include "core/error.h"

namespace longformer {

void EvaluationRun::start(const tasks::DataReport& report) {
  result.skipped = report.skipped;
  result.first_skipped = report.first_skipped;
  result.empty = report.empty;
  total_ = report.examples;
}

void EvaluationRun::count(const Length& length) {
  ++result.examples;
  result.tokens += length.tokens;
  result.truncated_examples += length.truncated > 0 ? 1 : 0;
  result.truncated_tokens += length.truncated;
  result.segmented_examples += length.segments > 1 ? 1 : 0;
  if (!options.progress) return;
  const double share = static_cast<double>(total_) / static_cast<double>(result.examples);
  options.progress({result.examples, total_, result.tokens,
                    static_cast<std::int64_t>(share * static_cast<double>(result.tokens))});
}

bool EvaluationRun::usable(const tasks::Origin& origin, const std::string& error,
                           const std::vector<Remedy>& remedies) {
  if (error.empty()) return true;
  const std::string message = fmt::format("{}: {}", tasks::place_of(path, origin), error);
  require(options.data.skip_invalid, remedies, "{}", message);
  if (result.skipped++ == 0) result.first_skipped = message;
  return false;
}

tasks::Json EvaluationRun::prediction(const tasks::Origin& origin) {
  tasks::Json json = tasks::Json::object();
  json["line"] = origin.line > 0 ? tasks::Json(origin.line) : tasks::Json();
  json["id"] = origin.id.empty() ? tasks::Json() : tasks::Json(origin.id);
  return json;
}

void EvaluationRun::predict(const tasks::Json& prediction) const {
  if (options.predictions) {
    options.predictions(prediction.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
}

void EvaluationRun::add_labels(const tasks::ClassificationMetrics& metrics) {
  for (const tasks::LabelScores& one : metrics.labels) {
    result.labels.push_back({one.label, one.precision, one.recall, one.f1, one.support});
  }
}

std::vector<std::string> metric_names(const ModelInfo& info, bool answerable, bool unanswerable) {
  if (info.head == "masked-lm") return {"loss", "bpc", "perplexity", "accuracy"};
  if (info.head == "token-classification") {
    return {"f1", "precision", "recall", "f1_macro", "accuracy"};
  }
  if (info.head == "question-answering") {
    std::vector<std::string> names = {"f1", "exact_match"};
    if (unanswerable && answerable) {
      names.insert(names.end(), {"has_answer_f1", "has_answer_exact_match"});
    }
    if (unanswerable) names.emplace_back("no_answer_exact_match");
    return names;
  }
  if (info.head != "sequence-classification") return {"accuracy"};
  if (info.problem_type == "regression") return {"pearson", "spearman", "mse", "mae"};
  if (info.problem_type == "multi_label_classification") {
    return {"f1_micro", "f1_macro", "f1_weighted", "precision_micro", "recall_micro", "accuracy"};
  }
  std::vector<std::string> names = {"accuracy"};
  if (info.labels.size() == 2) names.emplace_back("f1");
  names.insert(names.end(), {"f1_macro", "f1_weighted", "precision_macro", "recall_macro"});
  return names;
}

Evaluation evaluate(const Model& model, const Tokenizer& tokenizer, const std::string& path,
                    const EvaluateOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  EvaluationRun run(model, tokenizer, path, options);
  const std::string& head = model.info().head;
  run.result.task = head;
  if (head == "sequence-classification") {
    evaluate_classification(run);
  } else if (head == "token-classification") {
    evaluate_tagging(run);
  } else if (head == "question-answering") {
    evaluate_questions(run);
  } else if (head == "multiple-choice" || head == "candidate-scoring") {
    evaluate_choices(run);
  } else {
    require(head == "masked-lm", "model: expected a head to evaluate, found none");
    evaluate_masked_lm(run);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  run.result.seconds = seconds.count();
  return std::move(run.result);
}

}  // namespace longformer
