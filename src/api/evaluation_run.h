// What the evaluations of all tasks share: the report that they fill in, predictions and progress.
#pragma once

#include <string>
#include <vector>

#include "longformer/evaluation.h"
#include "tasks/data_file.h"
#include "tasks/metrics.h"

namespace longformer {

class EvaluationRun {
 public:
  EvaluationRun(const Model& model, const Tokenizer& tokenizer, const std::string& path,
                const EvaluateOptions& options)
      : model(model), tokenizer(tokenizer), path(path), options(options) {}

  const Model& model;
  const Tokenizer& tokenizer;
  const std::string& path;
  const EvaluateOptions& options;
  Evaluation result;

  /// What reading the data said, and how many examples there are.
  void start(const tasks::DataReport& report);

  /// How long an example was.
  struct Length {
    std::int64_t tokens = 0, truncated = 0, segments = 0;
  };
  /// An example went through the model.
  void count(const Length& length);
  /// Whether an example has a result; of one that has none tells why, as for a broken record.
  /// Throws Error.
  bool usable(const tasks::Origin& origin, const std::string& error,
              const std::vector<Remedy>& remedies);

  /// {"line": …, "id": …}: what a prediction begins with.
  static tasks::Json prediction(const tasks::Origin& origin);
  void predict(const tasks::Json& prediction) const;

  void add(const std::string& name, double value) { result.metrics.emplace_back(name, value); }
  void add_labels(const tasks::ClassificationMetrics& metrics);

  /// Fills in too_long, stride, global_attention and batch_tokens of the options of a task.
  template <typename Options>
  Options applied_to(Options task) const {
    task.too_long = options.too_long;
    task.stride = options.stride;
    task.global_attention = options.global_attention;
    task.batch_tokens = options.batch_tokens;
    return task;
  }

 private:
  std::int64_t total_ = 0;
};

/// The names of Evaluation::metrics, in their order; of questions it depends on whether some, and
/// some not, have an answer.
std::vector<std::string> metric_names(const ModelInfo& info, bool answerable, bool unanswerable);

/// One file for each: evaluation_classes.cc, evaluation_spans.cc, evaluation_masked_lm.cc.
void evaluate_classification(EvaluationRun& run);
void evaluate_choices(EvaluationRun& run);
void evaluate_tagging(EvaluationRun& run);
void evaluate_questions(EvaluationRun& run);
void evaluate_masked_lm(EvaluationRun& run);

}  // namespace longformer
