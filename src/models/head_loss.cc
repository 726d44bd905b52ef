#include "models/head_loss.h"

#include <algorithm>

#include "core/error.h"

namespace longformer::models {
namespace {

/// Options for an op whose loss is a sum over `count` things that count.
ops::LossOptions mean_of(double count, const HeadLossOptions& options) {
  return {.scale = count > 0 ? options.scale / count : 0,
          .label_smoothing = options.label_smoothing};
}

double count_of(std::span<const std::int32_t> labels) {
  return static_cast<double>(labels.size()) -
         static_cast<double>(std::count(labels.begin(), labels.end(), ops::kIgnored));
}

void check_count(std::size_t found, Index expected, const char* what) {
  require(static_cast<Index>(found) == expected, "loss: expected {} {}, found {}", expected, what,
          found);
}

void check_labels(std::span<const std::int32_t> labels, Index count, Index classes) {
  check_count(labels.size(), count, "labels");
  for (const std::int32_t label : labels) {
    require(label == ops::kIgnored || (label >= 0 && label < classes),
            "loss: expected labels from 0 to {} (or {}, which does not count), found {}",
            classes - 1, ops::kIgnored, label);
  }
}

ops::LossSum class_loss(const ops::Context& context, const Tensor& logits, const Targets& targets,
                        const HeadLossOptions& options) {
  check_labels(targets.labels, logits.rows(), logits.columns());
  return ops::cross_entropy(context, logits, targets.labels,
                            mean_of(count_of(targets.labels), options));
}

ops::LossSum sequence_loss(const ops::Context& context, const TaskLogits& task,
                           const Targets& targets, const HeadLossOptions& options) {
  const Problem problem = problem_of(task.config, targets);
  if (problem == Problem::single_label) return class_loss(context, task.logits, targets, options);
  check_count(targets.values.size(), task.logits.size(), "target values");
  const ops::LossOptions mean = mean_of(static_cast<double>(targets.values.size()), options);
  return problem == Problem::regression
             ? ops::squared_error(context, task.logits, targets.values, mean)
             : ops::binary_cross_entropy(context, task.logits, targets.values, mean);
}

/// Half the mean loss of the starts, half that of the ends.
ops::LossSum answer_loss(const ops::Context& context, const TaskLogits& task,
                         const Targets& targets, const HeadLossOptions& options) {
  const Batch& batch = task.batch;
  ops::LossSum total;
  Index column = 0;
  for (const auto* answers : {&targets.starts, &targets.ends}) {
    check_count(answers->size(), batch.documents(), "documents with answers");
    std::vector<ops::RowChoice> choices;
    double count = 0;
    for (std::size_t i = 0; i < answers->size(); ++i) {
      ops::RowChoice choice = {.range = {batch.starts[i], batch.starts[i + 1]}, .right = {}};
      for (const Index token : (*answers)[i]) {
        require(token >= 0 && token < choice.range.end - choice.range.begin,
                "loss: document {}: expected answers in its {} tokens, found token {}", i,
                choice.range.end - choice.range.begin, token);
        choice.right.push_back(choice.range.begin + token);
      }
      count += choice.right.empty() ? 0 : 1;
      choices.push_back(std::move(choice));
    }
    const HeadLossOptions half = {.scale = options.scale / 2};
    const ops::LossSum loss =
        ops::row_cross_entropy(context, task.logits, column++, choices, mean_of(count, half));
    if (loss.weight > 0) total.sum += loss.sum / loss.weight / 2;
  }
  // A mean already: its weight makes it one of so many documents.
  total.weight = static_cast<double>(batch.documents());
  total.sum *= total.weight;
  return total;
}

/// logits has one row for each choice of each question.
ops::LossSum choice_loss(const ops::Context& context, const Tensor& logits, const Targets& targets,
                         const HeadLossOptions& options) {
  check_count(targets.labels.size(), static_cast<Index>(targets.choices.size()), "right choices");
  std::vector<ops::RowChoice> questions;
  Index first = 0;
  for (std::size_t i = 0; i < targets.choices.size(); ++i) {
    ops::RowChoice question = {.range = {first, first + targets.choices[i]}, .right = {}};
    const std::int32_t label = targets.labels[i];
    if (label != ops::kIgnored) {
      check_labels({&label, 1}, 1, targets.choices[i]);
      question.right.push_back(first + label);
    }
    first = question.range.end;
    questions.push_back(std::move(question));
  }
  check_count(static_cast<std::size_t>(first), logits.rows(), "choices");
  return ops::row_cross_entropy(context, logits, 0, questions,
                                mean_of(count_of(targets.labels), options));
}

ops::LossSum candidate_loss(const ops::Context& context, const Tensor& logits,
                            const Targets& targets, const HeadLossOptions& options) {
  std::vector<Index> rows;
  std::vector<ops::RowRange> of_candidate;
  for (const std::vector<Index>& places : targets.candidates) {
    const auto first = static_cast<Index>(rows.size());
    for (const Index row : places) {
      require(row >= 0 && row < logits.rows(), "loss: expected candidates in {} rows, found row {}",
              logits.rows(), row);
      rows.push_back(row);
    }
    of_candidate.push_back({first, static_cast<Index>(rows.size())});
  }
  const Tensor chosen = ops::select_rows(context, logits, rows);
  return choice_loss(context, ops::sum_rows(context, chosen, of_candidate), targets, options);
}

}  // namespace

ops::LossSum masked_lm_loss(const ops::Context& context, const MaskedLmHead& head,
                            const Tensor& hidden, const Targets& targets,
                            const HeadLossOptions& options) {
  check_labels(targets.labels, hidden.rows(), head.vocabulary_size());
  std::vector<Index> rows;
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < targets.labels.size(); ++i) {
    if (targets.labels[i] == ops::kIgnored) continue;
    rows.push_back(static_cast<Index>(i));
    labels.push_back(targets.labels[i]);
  }
  if (rows.empty()) return {};
  return head.loss(context, ops::select_rows(context, hidden, rows), labels,
                   mean_of(static_cast<double>(rows.size()), options));
}

Problem problem_of(const EncoderConfig& config, const Targets& targets) {
  if (config.problem_type == "regression") return Problem::regression;
  if (config.problem_type == "multi_label_classification") return Problem::multi_label;
  if (config.problem_type == "single_label_classification") return Problem::single_label;
  if (config.labels.size() == 1) return Problem::regression;
  return targets.values.empty() ? Problem::single_label : Problem::multi_label;
}

ops::LossSum task_loss(const ops::Context& context, const TaskLogits& task, const Targets& targets,
                       const HeadLossOptions& options) {
  switch (task.kind) {
    case HeadKind::sequence_classification:
      return sequence_loss(context, task, targets, options);
    case HeadKind::token_classification:
      return class_loss(context, task.logits, targets, options);
    case HeadKind::question_answering:
      return answer_loss(context, task, targets, options);
    case HeadKind::multiple_choice:
      return choice_loss(context, task.logits, targets, options);
    case HeadKind::candidate_scoring:
      return candidate_loss(context, task.logits, targets, options);
    case HeadKind::none:
    case HeadKind::masked_lm:
      break;
  }
  fail("loss: expected a head for a task, found none");
}

}  // namespace longformer::models
